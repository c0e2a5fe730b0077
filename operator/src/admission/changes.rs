//! What may become of a graph that is there.

use dynosim_api::v1beta1::{ComponentSpec, DynamoGraphDeployment as Graph};
use serde_json::Value;

use crate::keys::annotation;
use crate::problems::Problems;

/// Checks a graph against the one that is stored. Components may come and go.
pub(super) fn check(problems: &mut Problems, new: &Graph, old: &Graph, phase: Option<&str>) {
    let (to, from) = (&new.spec, &old.spec);
    if let Some(framework) = &from.backend_framework
        && to.backend_framework.as_ref() != Some(framework)
    {
        problems.error("spec.backendFramework", format!("cannot be changed, it is {framework}"));
    }
    if from.topology_constraint.is_some() && to.topology_constraint != from.topology_constraint {
        problems.error("spec.topologyConstraint", "cannot be changed once it is set");
    }
    if let Some(provider) = provider(old)
        && self::provider(new) != Some(provider)
    {
        let path = format!("metadata.annotations[{}]", annotation::PROVIDER);
        problems.error(path, format!("cannot be changed, it is {provider}"));
    }
    for (index, component) in to.components.iter().enumerate() {
        if let Some(before) = same(old, component) {
            check_component(problems, &format!("spec.components[{index}]"), component, before);
        }
    }
    let id = |graph: &Graph| graph.spec.restart.as_ref().map(|restart| restart.id.clone());
    if let Some(phase @ ("Pending" | "InProgress")) = phase
        && let Some(wanted) = id(new)
        && id(old).as_ref() != Some(&wanted)
    {
        let message =
            format!("cannot be changed while workers are being replaced (status.rollingUpdate.phase: {phase})");
        problems.error("spec.restart.id", message);
    }
}

fn check_component(problems: &mut Problems, path: &str, new: &ComponentSpec, old: &ComponentSpec) {
    if let Some(kind) = &old.component_type
        && new.component_type.as_ref() != Some(kind)
    {
        let message = format!("cannot be changed, it is {kind}: use another name for a component of another type");
        problems.error(format!("{path}.type"), message);
    }
    if let Some(count) = old.min_available
        && new.min_available != Some(count)
    {
        problems.error(format!("{path}.minAvailable"), format!("cannot be changed, it is {count}"));
    }
    if old.topology_constraint.is_some() && new.topology_constraint != old.topology_constraint {
        problems.error(format!("{path}.topologyConstraint"), "cannot be changed once it is set");
    }
}

/// The component of the same name, whose case does not count.
pub(super) fn same<'a>(graph: &'a Graph, component: &ComponentSpec) -> Option<&'a ComponentSpec> {
    graph.spec.components.iter().find(|other| other.name.eq_ignore_ascii_case(&component.name))
}

/// How far the replacement of workers is.
pub(super) fn phase(object: &Value) -> Option<&str> {
    object["status"]["rollingUpdate"]["phase"].as_str()
}

fn provider(graph: &Graph) -> Option<&str> {
    let metadata = graph.metadata.annotations.as_ref().and_then(|annotations| annotations.get(annotation::PROVIDER));
    graph.spec.annotations.get(annotation::PROVIDER).or(metadata).map(String::as_str)
}
