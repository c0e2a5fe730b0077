//! A component of a graph.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, Probe};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::pod::{ExtraPodMetadata, ExtraPodSpec, Resources, SharedMemory, VolumeMount};
use crate::schema;
use crate::shared::{ModelRef, Multinode};

/// A component of a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(oldSelf.componentType) || (has(self.componentType) && self.componentType == oldSelf.componentType)",
    "message": "cannot be changed",
    "fieldPath": ".componentType",
}]))]
pub struct ServiceSpec {
    /// `frontend`, `worker`, `prefill`, `decode`, `planner` or `epp`; anything else, or nothing, has no defaults. Cannot
    /// be changed once it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_type: Option<String>,
    /// `prefill` or `decode`, for workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_component_type: Option<String>,
    /// The component's name; its key is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Deprecated, has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamo_namespace: Option<String>,
    /// The Dynamo namespace is `dynamo` instead of one of the graph's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_dynamo_namespace: Option<bool>,
    /// Pods; 1 if not given. With a scaling adapter, the adapter sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub replicas: Option<i32>,
    /// What the main container needs and may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Environment; wins over that of `extraPodSpec.mainContainer`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::env")]
    pub envs: Vec<EnvVar>,
    /// A secret whose entries become environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_from_secret: Option<String>,
    /// Volume claims of the graph that are mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 100))]
    pub volume_mounts: Vec<VolumeMount>,
    /// The memory at `/dev/shm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_memory: Option<SharedMemory>,
    /// Reaches a frontend from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Ingress>,
    /// The model that it serves, for a headless service by model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_ref: Option<ModelRef>,
    /// Labels and annotations of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_pod_metadata: Option<ExtraPodMetadata>,
    /// A pod's spec, and `mainContainer`, the container that runs the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_pod_spec: Option<ExtraPodSpec>,
    /// When the main container is started anew; takes the place of the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::probe")]
    pub liveness_probe: Option<Probe>,
    /// When the main container takes requests; takes the place of the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::probe")]
    pub readiness_probe: Option<Probe>,
    /// Several nodes per replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multinode: Option<Multinode>,
    /// A scaling adapter sets the replicas, if enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling_adapter: Option<ScalingAdapter>,
    /// Deprecated, has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub autoscaling: Option<Map<String, Value>>,
    /// Annotations of the component's objects and pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels of the component's objects and pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Settings of an endpoint picker; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub epp_config: Option<Map<String, Value>>,
    /// Where an engine starts from; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub checkpoint: Option<Map<String, Value>>,
    /// A frontend beside the component; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::anything")]
    pub frontend_sidecar: Option<Value>,
    /// A server that holds the engine's memory; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub gpu_memory_service: Option<Map<String, Value>>,
    /// What happens when an engine fails; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub failover: Option<Map<String, Value>>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Whether a scaling adapter sets the replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingAdapter {
    /// It does; not given: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Reaches a frontend from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.enabled) || !self.enabled || (has(self.host) && size(self.host) > 0)",
    "message": "is needed for an ingress that is enabled",
    "fieldPath": ".host",
}]))]
pub struct Ingress {
    /// There is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Name of the host, between prefix and suffix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What stands before the host's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_prefix: Option<String>,
    /// What stands after the host's name and a dot; not given: the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_suffix: Option<String>,
    /// Certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<IngressTls>,
    /// Class; not given: the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_controller_class_name: Option<String>,
    /// Annotations of the ingress.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels of the ingress.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// A virtual service of Istio in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_virtual_service: Option<bool>,
    /// Gateway of the virtual service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_service_gateway: Option<String>,
}

/// Certificate of an ingress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressTls {
    /// Name of the secret that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
}
