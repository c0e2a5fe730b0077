//! What a worker says of itself to frontends and routers.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema;

/// What a worker says of itself.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nvidia.com",
    version = "v1alpha1",
    kind = "DynamoWorkerMetadata",
    plural = "dynamoworkermetadatas",
    doc = "What a worker says of itself to frontends and routers. Workers write it under the name of their pod, which owns it.",
    namespaced,
    category = "dynamo",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct DynamoWorkerMetadataSpec {
    /// `endpoints`, `model_cards`, `event_channels` and `event_sources`, each by key; `null` is as good as empty. Frontends
    /// stop reading at an object without it, so there can be none.
    #[schemars(schema_with = "schema::object")]
    pub data: Map<String, Value>,
}
