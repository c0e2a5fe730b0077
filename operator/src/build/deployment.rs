//! Deployments: one for a component, or for a component and a generation of workers.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::current;
use super::meta::{component_labels, metadata, texts};
use super::pod::{Stamp, stamp, template};
use crate::config::Config;
use crate::dereference::Observed;
use crate::formats::Share;
use crate::keys::{annotation, label};
use crate::names;
use crate::validated::{Strategy, ValidatedComponent, ValidatedGraph};

/// What a Deployment is made of.
pub(super) struct Inputs<'a> {
    pub(super) graph: &'a ValidatedGraph,
    pub(super) component: &'a ValidatedComponent,
    pub(super) config: &'a Config,
    pub(super) observed: &'a Observed,
    /// Generation of workers.
    pub(super) hash: Option<&'a str>,
    /// Restart that the pods are to have seen.
    pub(super) restart: Option<&'a str>,
    /// Replicas in the end.
    pub(super) wanted: u32,
    /// Replicas that a rolling update has room for now.
    pub(super) target: u32,
}

/// The Deployment, and when its next pods may start, if some have to wait.
pub(super) fn build(inputs: &Inputs<'_>) -> (Deployment, Option<Duration>) {
    let Inputs { graph, component, config, observed, hash, restart, wanted, target } = *inputs;
    let name = match hash {
        Some(hash) => names::generation(&graph.name, &component.lower, hash),
        None => names::child(&graph.name, &component.lower),
    };
    let seen = current(observed, component, hash);
    let replicas = seen.map_or(0, |seen| seen.replicas);
    let next = seen.and_then(|seen| seen.next_start);
    let step = component.stagger().step(replicas, target, wanted, next, observed.now);
    let mut labels = component_labels(graph, component);
    labels.insert(label::SELECTOR.to_owned(), name.clone());
    labels.extend(hash.map(|hash| (label::WORKER_HASH.to_owned(), hash.to_owned())));
    let next = step.next.map(|next| (annotation::NEXT_START.to_owned(), next.to_string()));
    let stamped = Stamp { deployment: &name, hash, restart, pull_secrets: &observed.pull_secrets };
    let template = stamp(template(graph, component, config), graph, component, config, &stamped);
    let deployment = Deployment {
        metadata: metadata(graph, name.clone(), labels, next.into_iter().collect()),
        spec: Some(DeploymentSpec {
            replicas: Some(step.replicas.cast_signed()),
            selector: LabelSelector {
                match_labels: Some(texts([(label::SELECTOR, name.as_str())])),
                match_expressions: None,
            },
            strategy: Some(strategy(component.strategy)),
            template,
            ..DeploymentSpec::default()
        }),
        status: None,
    };
    (deployment, step.wait)
}

fn strategy(strategy: Strategy) -> DeploymentStrategy {
    let share = |share: Share| match share {
        Share::Count(count) => IntOrString::Int(count.cast_signed()),
        Share::Percent(percent) => IntOrString::String(format!("{percent}%")),
    };
    match strategy {
        Strategy::Recreate => DeploymentStrategy { type_: Some("Recreate".to_owned()), rolling_update: None },
        Strategy::Rolling { surge, unavailable } => DeploymentStrategy {
            type_: Some("RollingUpdate".to_owned()),
            rolling_update: Some(RollingUpdateDeployment {
                max_surge: Some(share(surge)),
                max_unavailable: Some(share(unavailable)),
            }),
        },
    }
}
