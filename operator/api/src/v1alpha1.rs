//! `nvidia.com/v1alpha1`, the older version.

mod adapter;
mod pod;
mod service;
mod status;
mod worker;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::EnvVar;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use adapter::{DynamoGraphDeploymentScalingAdapter, DynamoGraphDeploymentScalingAdapterSpec, ServiceRef};
pub use pod::{ExtraPodMetadata, ExtraPodSpec, MainContainer, ResourceAmounts, Resources, SharedMemory, VolumeMount};
pub use service::{Ingress, IngressTls, ScalingAdapter, ServiceSpec};
pub use status::{DynamoGraphDeploymentStatus, RollingUpdateStatus, ServiceStatus};
pub use worker::{DynamoWorkerMetadata, DynamoWorkerMetadataSpec};

use crate::schema;
pub use crate::shared::{ModelRef, Multinode, Restart, RestartStatus, RestartStrategy, ScalingAdapterStatus};
pub use crate::v1beta1::GraphExperimental;

/// A serving graph: the components that together serve models.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nvidia.com",
    version = "v1alpha1",
    kind = "DynamoGraphDeployment",
    doc = "A serving graph: the components that together serve models. The older version of the API.",
    namespaced,
    status = "DynamoGraphDeploymentStatus",
    shortname = "dgd",
    category = "dynamo",
    deprecated = "nvidia.com/v1alpha1 DynamoGraphDeployment is deprecated; use nvidia.com/v1beta1",
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
        "rule": "!has(self.restart) || !has(self.restart.strategy) || !has(self.restart.strategy.order) || size(self.restart.strategy.order) == 0 || (size(self.restart.strategy.order) == size(self.services) && self.services.all(name, name in self.restart.strategy.order))",
        "message": "must name every component once",
        "fieldPath": ".restart.strategy.order",
    },
]))]
pub struct DynamoGraphDeploymentSpec {
    /// The components by name.
    #[schemars(extend(
        "minProperties" = 1,
        "maxProperties" = 25,
        "x-kubernetes-validations" = [
            {
                "rule": "self.all(name, name.matches('^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$'))",
                "message": "names must be 1 to 63 letters, digits and hyphens",
            },
            {
                "rule": "self.all(a, self.exists_one(b, a.lowerAscii() == b.lowerAscii()))",
                "message": "names must differ in more than case",
            },
            {
                "rule": "self.filter(name, has(self[name].componentType) && self[name].componentType == 'epp').size() <= 1",
                "message": "one component of type epp is allowed",
            },
        ],
    ))]
    pub services: BTreeMap<String, ServiceSpec>,
    /// Environment of every component; a component's own entry of the same name wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::env")]
    pub envs: Vec<EnvVar>,
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
    /// Volume claims that components mount.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 100, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pvcs: Vec<VolumeClaim>,
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

/// A volume claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.create) || !self.create || (has(self.size) && has(self.storageClass) && has(self.volumeAccessMode))",
    "message": "size, storageClass and volumeAccessMode are needed for a claim that is to be created",
}]))]
pub struct VolumeClaim {
    /// Name.
    #[schemars(extend("minLength" = 1, "maxLength" = 253))]
    pub name: String,
    /// The operator makes it; else it is there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<bool>,
    /// How large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: Option<Quantity>,
    /// Of which storage class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// Who may mount it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]))]
    pub volume_access_mode: Option<String>,
}
