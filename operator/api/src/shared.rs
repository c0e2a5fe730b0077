//! Parts that both versions have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema;

/// A restart of all components, asked for by changing `id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Restart {
    /// Any text; another one than before restarts the components.
    #[schemars(length(min = 1))]
    pub id: String,
    /// In which order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RestartStrategy>,
}

/// The order of a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.type) || self.type != 'Parallel' || !has(self.order) || size(self.order) == 0",
    "message": "cannot be given with the type Parallel, which has no order",
    "fieldPath": ".order",
}]))]
pub struct RestartStrategy {
    /// One component after the other, or all at once.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Sequential", "Parallel"], "default" = "Sequential"))]
    pub strategy_type: Option<String>,
    /// Names of all components, each once; not given: by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 25, "items" = {"type": "string", "maxLength": 63}))]
    pub order: Vec<String>,
}

/// A component on several nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Multinode {
    /// Nodes per replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 2, "default" = 2))]
    pub node_count: Option<i32>,
}

/// The model that a component serves, for a service that finds its pods by model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelRef {
    /// Name of the model.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// What the operator knows of a component. Every field that is not known here is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// What runs its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Deployment", "PodClique", "PodCliqueScalingGroup", "LeaderWorkerSet"]))]
    pub component_kind: Option<String>,
    /// Names of what runs its pods; two while a new generation replaces an old one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub component_names: Vec<String>,
    /// Dynamo namespace of its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_namespace: Option<String>,
    /// Dynamo component of its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_component_name: Option<String>,
    /// Name of the model as clients ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model_name: Option<String>,
    /// GPUs that an engine would have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_engine: Option<i32>,
    /// GPUs that a replica would have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_replica: Option<i32>,
    /// Pods.
    #[serde(default)]
    pub replicas: i32,
    /// Pods of the wanted generation.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Pods that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Pods that are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Pods that a gang scheduler has placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_replicas: Option<i32>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// How far a restart is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestartStatus {
    /// The `id` that it is about.
    #[serde(rename = "observedID", default, skip_serializing_if = "Option::is_none")]
    pub observed_id: Option<String>,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Pending", "Restarting", "Completed", "Failed", "Superseded"]))]
    pub phase: Option<String>,
    /// Components that are restarting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_progress: Vec<String>,
}

/// What a scaling adapter knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingAdapterStatus {
    /// Pods of the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Selects the component's pods, for autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// When the number was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_scale_time: Option<Time>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}
