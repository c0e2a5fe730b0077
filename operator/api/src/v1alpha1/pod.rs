//! What a component says of its pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::EnvVar;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema;

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
    /// Program and first arguments; not given: those of the component's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Folder that the program starts in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Environment; wins over the graph's by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::env")]
    pub env: Vec<EnvVar>,
    /// The container's other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Labels and annotations of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraPodMetadata {
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// What a container needs and may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// What it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceAmounts>,
    /// What it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceAmounts>,
    /// Claims of devices; kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub claims: Vec<Map<String, Value>>,
}

/// Amounts of resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceAmounts {
    /// Processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub cpu: Option<Quantity>,
    /// Memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub memory: Option<Quantity>,
    /// GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub gpu: Option<Quantity>,
    /// Name of the resource that GPUs are; `nvidia.com/gpu` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<String>,
    /// Other resources by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub custom: BTreeMap<String, String>,
}

/// The memory at `/dev/shm`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.disabled) && self.disabled) || has(self.size)",
    "message": "is needed unless shared memory is disabled",
    "fieldPath": ".size",
}]))]
pub struct SharedMemory {
    /// There is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// How large; without `sharedMemory`, 8Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: Option<Quantity>,
}

/// A volume claim of the graph that is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.useAsCompilationCache) && self.useAsCompilationCache) || (has(self.mountPoint) && size(self.mountPoint) > 0)",
    "message": "is needed unless the volume is the compilation cache",
    "fieldPath": ".mountPoint",
}]))]
pub struct VolumeMount {
    /// Name of the claim.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Where it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<String>,
    /// It is for what the engine compiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_as_compilation_cache: Option<bool>,
}
