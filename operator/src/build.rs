//! The third step: all objects of a graph. Cannot fail: what could go wrong was proven by `validate`.

mod adapter;
mod claim;
mod container;
mod deployment;
mod ingress;
mod meta;
mod pod;
mod pod_monitor;
mod rbac;
mod service;
mod workers;

use std::collections::BTreeMap;
use std::time::Duration;

use dynosim_api::v1beta1::DynamoGraphDeploymentScalingAdapter;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::DynamicObject;

use crate::config::{Config, Discovery};
use crate::dereference::{Observed, SeenDeployment};
use crate::restart::{self, Seen};
use crate::validated::{ValidatedComponent, ValidatedGraph};

pub use rbac::handed_on;
pub use workers::{Rolling, worker_hash};

/// All objects of a graph, in the order in which they are applied: what pods need comes before them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Children {
    /// Account of the pods.
    pub accounts: Vec<ServiceAccount>,
    /// What the accounts may do.
    pub roles: Vec<Role>,
    /// Which account has which role.
    pub bindings: Vec<RoleBinding>,
    /// Volume claims.
    pub claims: Vec<PersistentVolumeClaim>,
    /// Scaling adapters. Their replicas are for creation only: afterwards they belong to whoever scales.
    pub adapters: Vec<DynamoGraphDeploymentScalingAdapter>,
    /// Services, before the pods that look for each other through them.
    pub services: Vec<Service>,
    /// The pods of the wanted generation.
    pub deployments: Vec<Deployment>,
    /// Replicas of earlier generations, whose templates are no longer known.
    pub retiring: Vec<Retiring>,
    /// Ways in from outside.
    pub ingresses: Vec<Ingress>,
    /// Pod monitors.
    pub pod_monitors: Vec<DynamicObject>,
}

/// A Deployment of an earlier generation. Only its replicas are to be written, by a patch or the scale subresource: applying
/// them as a whole object would take its other fields away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retiring {
    /// Name.
    pub name: String,
    /// Replicas from now on; 0 and no pod left: it can be deleted.
    pub replicas: u32,
    /// No pod is left.
    pub is_drained: bool,
}

/// A graph in objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    /// The objects.
    pub children: Children,
    /// The wanted generation of workers, if there are workers.
    pub hash: Option<String>,
    /// The rolling update that is going on.
    pub rolling: Option<Rolling>,
    /// The restart that is going on.
    pub restart: restart::Plan,
    /// When to build again although nothing has changed: the stagger waits.
    pub wait: Option<Duration>,
}

/// Builds all objects.
pub fn build(graph: &ValidatedGraph, observed: &Observed, config: &Config) -> Built {
    let hash = worker_hash(graph, config);
    let generations = workers::generations(graph, observed, hash.as_deref());
    let rolling = generations.rolling();
    let restart = plan_restart(graph, observed, hash.as_deref(), rolling.is_some());
    let mut wait = None;
    let deployments: Vec<_> = graph
        .components
        .iter()
        .map(|component| {
            let inputs = deployment::Inputs {
                graph,
                component,
                config,
                observed,
                hash: hash.as_deref().filter(|_| component.is_worker()),
                restart: restart.ids.get(&component.lower).map(String::as_str),
                wanted: replicas(component, observed),
                target: generations.target(component).unwrap_or_else(|| replicas(component, observed)),
            };
            let (built, pause) = deployment::build(&inputs);
            wait = [wait, pause].into_iter().flatten().min();
            built
        })
        .collect();
    let (mut accounts, mut roles, mut bindings) = (Vec::new(), Vec::new(), Vec::new());
    let access = [rbac::discovery(graph), rbac::planner(graph, &observed.planner_owners)];
    for (account, role, binding) in access.into_iter().flatten() {
        accounts.push(account);
        roles.push(role);
        bindings.push(binding);
    }
    let children = Children {
        accounts,
        roles,
        bindings,
        claims: graph.claims.iter().map(|claim| claim::build(graph, claim)).collect(),
        adapters: graph.components.iter().filter_map(|component| adapter::build(graph, component)).collect(),
        services: service::all(graph),
        deployments,
        retiring: generations.retiring(),
        ingresses: graph.components.iter().filter_map(|component| ingress::build(graph, component)).collect(),
        pod_monitors: pod_monitor::all(graph, observed, config),
    };
    Built { children, hash, rolling, restart, wait }
}

/// Replicas that a component is to have: the adapter's, if it has one that exists, else the manifest's.
pub fn replicas(component: &ValidatedComponent, observed: &Observed) -> u32 {
    let adapter = observed.adapters.get(&component.lower).filter(|_| component.has_adapter);
    adapter.copied().unwrap_or(component.replicas)
}

/// The Deployment of the wanted generation of a component.
fn current<'a>(
    observed: &'a Observed,
    component: &ValidatedComponent,
    hash: Option<&str>,
) -> Option<&'a SeenDeployment> {
    let hash = hash.filter(|_| component.is_worker());
    let mut all = observed.deployments.iter();
    all.find(|deployment| deployment.component == component.lower && deployment.hash.as_deref() == hash)
}

fn plan_restart(graph: &ValidatedGraph, observed: &Observed, hash: Option<&str>, rolling: bool) -> restart::Plan {
    let seen: BTreeMap<_, _> = graph
        .components
        .iter()
        .filter_map(|component| {
            let deployment = current(observed, component, hash)?;
            let settled = deployment.settled && deployment.replicas == replicas(component, observed);
            Some((component.lower.clone(), Seen { id: deployment.restart.clone(), settled }))
        })
        .collect();
    restart::plan(graph.restart.as_ref(), &seen, rolling)
}

/// Whether components find each other through the cluster.
fn by_kubernetes(graph: &ValidatedGraph) -> bool {
    graph.discovery == Discovery::Kubernetes
}
