//! `nvidia.com/v1beta1`, the stored version.

mod adapter;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use adapter::{ComponentRef, DynamoGraphDeploymentScalingAdapter, DynamoGraphDeploymentScalingAdapterSpec};
pub use status::{DynamoGraphDeploymentStatus, RollingUpdateStatus};

use crate::schema;
pub use crate::shared::{
    ComponentStatus, ModelRef, Multinode, Restart, RestartStatus, RestartStrategy, ScalingAdapterStatus,
};

/// A serving graph: the components that together serve models.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nvidia.com",
    version = "v1beta1",
    kind = "DynamoGraphDeployment",
    doc = "A serving graph: the components that together serve models.",
    namespaced,
    status = "DynamoGraphDeploymentStatus",
    shortname = "dgd",
    category = "dynamo",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether all components serve"
    ),
    printcolumn(name = "Backend", type_ = "string", json_path = ".spec.backendFramework", description = "The engine"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(oldSelf.backendFramework) || (has(self.backendFramework) && self.backendFramework == oldSelf.backendFramework)",
        "message": "cannot be changed",
        "fieldPath": ".backendFramework",
    },
    {
        "rule": "oldSelf.hasValue() || !has(self.restart)",
        "optionalOldSelf": true,
        "message": "cannot be given when a graph is created, there is nothing to restart",
        "fieldPath": ".restart",
    },
    {
        "rule": "!has(self.restart) || !has(self.restart.strategy) || !has(self.restart.strategy.order) || size(self.restart.strategy.order) == 0 || (size(self.restart.strategy.order) == size(self.components) && self.components.all(c, c.name in self.restart.strategy.order))",
        "message": "must name every component once",
        "fieldPath": ".restart.strategy.order",
    },
]))]
pub struct DynamoGraphDeploymentSpec {
    /// The components, with names that differ in more than case.
    #[schemars(extend(
        "minItems" = 1,
        "maxItems" = 25,
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"],
        "x-kubernetes-validations" = [
            {
                "rule": "self.all(a, self.exists_one(b, a.name.lowerAscii() == b.name.lowerAscii()))",
                "message": "names must differ in more than case",
            },
            {
                "rule": "self.filter(c, has(c.type) && c.type == 'epp').size() <= 1",
                "message": "one component of type epp is allowed",
            },
        ],
    ))]
    pub components: Vec<ComponentSpec>,
    /// Environment of every component; a component's own entry of the same name wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::env")]
    pub env: Vec<EnvVar>,
    /// Annotations of all children; a component's own win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels of all children; a component's own win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The engine that the graph is written for. Cannot be changed once it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["sglang", "vllm", "trtllm"]))]
    pub backend_framework: Option<String>,
    /// Restarts all components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    /// For gang schedulers; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// For gang schedulers; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub topology_constraint: Option<Map<String, Value>>,
    /// For other ways to run a graph; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub provider_override: Option<Map<String, Value>>,
    /// Fields that may change; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<GraphExperimental>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Fields of a graph that may change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphExperimental {
    /// How KV blocks travel; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub kv_transfer_policy: Option<Map<String, Value>>,
    /// Components that scale together; kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects", extend("maxItems" = 16))]
    pub component_groups: Vec<Map<String, Value>>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A component of a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(oldSelf.type) || (has(self.type) && self.type == oldSelf.type)",
        "message": "cannot be changed",
        "fieldPath": ".type",
    },
    {
        "rule": "!has(oldSelf.minAvailable) || (has(self.minAvailable) && self.minAvailable == oldSelf.minAvailable)",
        "message": "cannot be changed",
        "fieldPath": ".minAvailable",
    },
]))]
pub struct ComponentSpec {
    /// 1 to 63 letters, digits and hyphens.
    #[schemars(extend(
        "minLength" = 1, "maxLength" = 63, "pattern" = "^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$"
    ))]
    pub name: String,
    /// What it is; without a type it has no defaults. Cannot be changed once it is set.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["frontend", "worker", "prefill", "decode", "planner", "epp"]))]
    pub component_type: Option<String>,
    /// Pods; 1 if not given. With a scaling adapter, the adapter sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub replicas: Option<i32>,
    /// The pod; its container `main` runs the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pod_template")]
    pub pod_template: Option<PodTemplateSpec>,
    /// The Dynamo namespace is `dynamo` instead of one of the graph's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_dynamo_namespace: Option<bool>,
    /// Given, even if empty: a scaling adapter sets the replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub scaling_adapter: Option<Map<String, Value>>,
    /// The model that it serves, for a headless service by model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_ref: Option<ModelRef>,
    /// Size of the memory at `/dev/shm`: 8Gi if not given, `0` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub shared_memory_size: Option<Quantity>,
    /// A volume for what the engine compiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compilation_cache: Option<CompilationCache>,
    /// Dynamo's version in the image, `MAJOR.MINOR.PATCH`, where its tag does not tell; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[0-9]+\\.[0-9]+\\.[0-9]+$"))]
    pub runtime_version_override: Option<String>,
    /// For gang schedulers; kept. Cannot be changed once it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub min_available: Option<i32>,
    /// Several nodes per replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multinode: Option<Multinode>,
    /// Parts of a component on several nodes; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::anything")]
    pub roles: Option<Value>,
    /// Settings of an endpoint picker; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub epp_config: Option<Map<String, Value>>,
    /// A frontend beside the component; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::anything")]
    pub frontend_sidecar: Option<Value>,
    /// Dynamo's runtime beside the component; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::anything")]
    pub dynamo_sidecar: Option<Value>,
    /// For gang schedulers; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub topology_constraint: Option<Map<String, Value>>,
    /// Fields that may change; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<ComponentExperimental>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A volume for what an engine compiles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompilationCache {
    /// Name of the volume claim.
    #[schemars(length(min = 1))]
    pub pvc_name: String,
    /// Where it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_path: Option<String>,
}

/// Fields of a component that may change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentExperimental {
    /// A server that holds the engine's memory; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub gpu_memory_service: Option<Map<String, Value>>,
    /// What happens when an engine fails; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub failover: Option<Map<String, Value>>,
    /// Where an engine starts from; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub checkpoint: Option<Map<String, Value>>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}
