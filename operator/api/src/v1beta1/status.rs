//! What the operator knows of a graph.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema;
use crate::shared::{ComponentStatus, RestartStatus};

/// What the operator knows of a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamoGraphDeploymentStatus {
    /// The generation of the graph that all of this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `successful` once all components serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["initializing", "pending", "successful", "failed"], "default" = "initializing"))]
    pub state: Option<String>,
    /// `Ready` is `True` once all components serve what the spec says and no older pod counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The components by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, ComponentStatus>,
    /// How far a restart is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartStatus>,
    /// How far the replacement of the workers by a new generation is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateStatus>,
    /// Of checkpoints; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub checkpoints: Option<Map<String, Value>>,
    /// Of gang schedulers; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::anything")]
    pub placement: Option<Value>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// How far the replacement of the workers is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateStatus {
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["", "Pending", "InProgress", "Completed", "Failed"]))]
    pub phase: Option<String>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub end_time: Option<Time>,
    /// Components that are done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updated_components: Vec<String>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}
