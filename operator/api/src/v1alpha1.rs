//! `nvidia.com/v1alpha1`, the older version.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::EnvVar;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A serving graph: the components that together serve models.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nvidia.com",
    version = "v1alpha1",
    kind = "DynamoGraphDeployment",
    namespaced,
    shortname = "dgd",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct DynamoGraphDeploymentSpec {
    /// The components by name, at most 25.
    #[serde(default)]
    pub services: BTreeMap<String, ServiceSpec>,
    /// Environment of every component; a component's own entry of the same name wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub envs: Vec<EnvVar>,
    /// Annotations of all children.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels of all children.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// `sglang`, `vllm` or `trtllm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_framework: Option<String>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A component of a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// `frontend`, `worker`, `prefill`, `decode`, `planner` or `epp`; anything else, or nothing, has no defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_type: Option<String>,
    /// `prefill` or `decode`, for workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_component_type: Option<String>,
    /// Pods; 1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Environment; wins over that of `extraPodSpec.mainContainer`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub envs: Vec<EnvVar>,
    /// A secret whose entries become environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_from_secret: Option<String>,
    /// The Dynamo namespace is `dynamo` instead of one of the graph's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_dynamo_namespace: Option<bool>,
    /// A pod's spec, and `mainContainer`, the container that runs the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_pod_spec: Option<ExtraPodSpec>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A pod's spec with its main container apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraPodSpec {
    /// The container that runs the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_container: Option<MainContainer>,
    /// The pod's other fields.
    #[serde(flatten)]
    pub pod_spec: Map<String, Value>,
}

/// A container without a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MainContainer {
    /// Image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Program and first arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// The container's other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}
