//! Metadata of children.

use std::collections::BTreeMap;

use dynosim_api::{GRAPH_KIND, GROUP};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::by_kubernetes;
use crate::keys::{annotation, label};
use crate::names;
use crate::validated::{DiscoveryMode, ValidatedComponent, ValidatedGraph};

/// Labels or annotations.
pub(super) type Texts = BTreeMap<String, String>;

/// The graph as the owner of a child. `controller`: it alone decides about it.
pub(super) fn owner(graph: &ValidatedGraph, controller: bool) -> OwnerReference {
    OwnerReference {
        api_version: format!("{GROUP}/v1beta1"),
        kind: GRAPH_KIND.to_owned(),
        name: graph.name.clone(),
        uid: graph.uid.clone(),
        controller: Some(controller),
        block_owner_deletion: Some(controller),
    }
}

/// Metadata of a child with the graph's labels and annotations under `labels` and `annotations`.
pub(super) fn metadata(graph: &ValidatedGraph, name: String, labels: Texts, annotations: Texts) -> ObjectMeta {
    let labels = over(without(&graph.labels, &label::OWN), labels);
    let annotations = over(without(&graph.annotations, &annotation::OWN), annotations);
    ObjectMeta {
        name: Some(name),
        namespace: Some(graph.namespace.clone()),
        labels: Some(labels),
        annotations: (!annotations.is_empty()).then_some(annotations),
        owner_references: Some(vec![owner(graph, true)]),
        ..ObjectMeta::default()
    }
}

/// Entries of a user without those that only the operator sets.
pub(super) fn without(texts: &Texts, own: &[&str]) -> Texts {
    texts
        .iter()
        .filter(|(key, _)| !own.contains(&key.as_str()))
        .map(|(key, text)| (key.clone(), text.clone()))
        .collect()
}

/// Entries of both; those of the second win.
pub(super) fn over(mut below: Texts, above: Texts) -> Texts {
    below.extend(above);
    below
}

pub(super) fn texts<const N: usize>(entries: [(&str, &str); N]) -> Texts {
    entries.map(|(key, text)| (key.to_owned(), text.to_owned())).into()
}

/// What all objects of a component carry.
pub(super) fn component_labels(graph: &ValidatedGraph, component: &ValidatedComponent) -> Texts {
    let kind = component.component_type.name();
    let mut labels = texts([
        (label::GRAPH, graph.name.as_str()),
        (label::COMPONENT, component.name.as_str()),
        (label::NAMESPACE, component.dynamo_namespace.as_str()),
        (label::TYPE, kind),
    ]);
    if ["prefill", "decode"].contains(&kind) {
        labels.insert(label::SUB_TYPE.to_owned(), kind.to_owned());
    }
    labels
}

/// What selects the pods of a component over all of its generations.
pub(super) fn selector(graph: &ValidatedGraph, component: &ValidatedComponent) -> Texts {
    let mut labels = component_labels(graph, component);
    labels.remove(label::SUB_TYPE);
    labels
}

/// What makes a Service's slices, or in container mode the pods themselves, seen by components that look for others.
pub(super) fn discovery_labels(graph: &ValidatedGraph, on: DiscoveryMode) -> Texts {
    if by_kubernetes(graph) && graph.mode == on {
        texts([(label::DISCOVERY_BACKEND, "kubernetes"), (label::DISCOVERY_ENABLED, "true")])
    } else {
        Texts::new()
    }
}

/// Labels of objects that are for the whole graph.
pub(super) fn graph_labels(graph: &ValidatedGraph, part: &str) -> Texts {
    texts([
        (label::GRAPH, graph.name.as_str()),
        (label::MANAGED_BY, label::MANAGER),
        (label::PART, part),
        (label::NAME, graph.name.as_str()),
    ])
}

/// The label of a model and its name.
pub(super) fn model(component: &ValidatedComponent) -> Option<(String, String)> {
    let name = component.model.clone()?;
    Some((names::hash(name.as_bytes()), name))
}
