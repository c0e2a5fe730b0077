//! `nvidia.com/v1beta1`, the stored version.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, PodTemplateSpec};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A serving graph: the components that together serve models.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nvidia.com",
    version = "v1beta1",
    kind = "DynamoGraphDeployment",
    namespaced,
    shortname = "dgd",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct DynamoGraphDeploymentSpec {
    /// The components, at most 25, with names that differ in more than case.
    #[serde(default)]
    pub components: Vec<ComponentSpec>,
    /// Environment of every component; a component's own entry of the same name wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
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
pub struct ComponentSpec {
    /// 1 to 63 letters, digits and hyphens.
    pub name: String,
    /// `frontend`, `worker`, `prefill`, `decode`, `planner` or `epp`; anything else, or nothing, has no defaults.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub component_type: Option<String>,
    /// Pods; 1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The pod; its container `main` runs the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplateSpec>,
    /// The Dynamo namespace is `dynamo` instead of one of the graph's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_dynamo_namespace: Option<bool>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}
