//! Scaling adapters.

use dynosim_api::v1beta1::{
    ComponentRef, DynamoGraphDeploymentScalingAdapter, DynamoGraphDeploymentScalingAdapterSpec,
};

use super::meta::{Texts, metadata, texts};
use crate::keys::label;
use crate::names;
use crate::validated::{ValidatedComponent, ValidatedGraph};

/// With the manifest's replicas, which count until the adapter exists.
pub(super) fn build(
    graph: &ValidatedGraph,
    component: &ValidatedComponent,
) -> Option<DynamoGraphDeploymentScalingAdapter> {
    if !component.has_adapter {
        return None;
    }
    let labels = texts([(label::GRAPH, graph.name.as_str()), (label::COMPONENT, component.name.as_str())]);
    Some(DynamoGraphDeploymentScalingAdapter {
        metadata: metadata(graph, names::child(&graph.name, &component.lower), labels, Texts::new()),
        spec: DynamoGraphDeploymentScalingAdapterSpec {
            replicas: component.replicas.cast_signed(),
            dgd_ref: ComponentRef {
                name: graph.name.clone(),
                component_name: Some(component.name.clone()),
                component_group_name: None,
            },
        },
        status: None,
    })
}
