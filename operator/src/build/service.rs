//! Services: what components find each other by, and what clients call.

use std::collections::BTreeMap;

use dynosim_api::ComponentType;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::meta::{Texts, component_labels, discovery_labels, metadata, model, over, selector, texts};
use super::{by_kubernetes, container};
use crate::defaults::{EPP_PORT, GRPC, HTTP, HTTP_PORT, SYSTEM, SYSTEM_PORT};
use crate::keys::{annotation, label};
use crate::names;
use crate::validated::{DiscoveryMode, ValidatedComponent, ValidatedGraph};

pub(super) fn all(graph: &ValidatedGraph) -> Vec<Service> {
    // With etcd nobody needs a slice; clients still call frontends.
    let wanted = |component: &&ValidatedComponent| {
        by_kubernetes(graph) || matches!(component.component_type, ComponentType::Frontend | ComponentType::Epp)
    };
    let services = graph.components.iter().filter(wanted).map(|component| build(graph, component));
    services.chain(of_models(graph)).collect()
}

/// One for a component, whatever its generations are: its name and its selector stay.
fn build(graph: &ValidatedGraph, component: &ValidatedComponent) -> Service {
    let (name, number) = match component.component_type {
        ComponentType::Frontend => (HTTP, HTTP_PORT),
        ComponentType::Epp => (GRPC, EPP_PORT),
        _ => (SYSTEM, SYSTEM_PORT),
    };
    let port = ServicePort {
        name: Some(name.to_owned()),
        port: i32::from(number),
        target_port: Some(container::port_reference(component, component.port.unwrap_or(number))),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    };
    let labels = over(component_labels(graph, component), discovery_labels(graph, DiscoveryMode::Pod));
    Service {
        metadata: metadata(graph, names::child(&graph.name, &component.lower), labels, Texts::new()),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector(graph, component)),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// A headless one for each model that components refer to.
fn of_models(graph: &ValidatedGraph) -> Vec<Service> {
    let models: BTreeMap<_, _> = graph.components.iter().filter_map(model).collect();
    let build = |(hash, model): (String, String)| {
        let labels = texts([(label::GRAPH, graph.name.as_str()), (label::MODEL_HASH, hash.as_str())]);
        let port = ServicePort {
            name: Some(SYSTEM.to_owned()),
            port: i32::from(SYSTEM_PORT),
            target_port: Some(IntOrString::Int(i32::from(SYSTEM_PORT))),
            protocol: Some("TCP".to_owned()),
            ..ServicePort::default()
        };
        Service {
            metadata: metadata(
                graph,
                names::model(&graph.name, &hash),
                labels.clone(),
                texts([(annotation::MODEL, model.as_str())]),
            ),
            spec: Some(ServiceSpec {
                type_: Some("ClusterIP".to_owned()),
                cluster_ip: Some("None".to_owned()),
                selector: Some(labels),
                ports: Some(vec![port]),
                ..ServiceSpec::default()
            }),
            status: None,
        }
    };
    models.into_iter().map(build).collect()
}
