//! The handle by which autoscalers and planners set a component's replicas.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::ScalingAdapterStatus;

/// How many replicas a component of a graph has.
#[derive(Clone, Debug, Default, PartialEq, Eq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nvidia.com",
    version = "v1alpha1",
    kind = "DynamoGraphDeploymentScalingAdapter",
    doc = "How many replicas a component of a graph has, with the scale subresource. The older version of the API.",
    namespaced,
    status = "ScalingAdapterStatus",
    shortname = "dgdsa",
    category = "dynamo",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "DGD", type_ = "string", json_path = ".spec.dgdRef.name", description = "The graph"),
    printcolumn(
        name = "Service",
        type_ = "string",
        json_path = ".spec.dgdRef.serviceName",
        description = "The component"
    ),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas", description = "Its pods"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct DynamoGraphDeploymentScalingAdapterSpec {
    /// Pods that the component is to have.
    #[schemars(extend("minimum" = 0))]
    pub replicas: i32,
    /// The component.
    pub dgd_ref: ServiceRef,
}

/// A component of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.serviceName) || has(self.componentGroupName)",
    "message": "serviceName or componentGroupName is needed",
}]))]
pub struct ServiceRef {
    /// Name of the graph.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Name of the component, as the graph writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub service_name: Option<String>,
    /// Name of a group of components; kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub component_group_name: Option<String>,
}
