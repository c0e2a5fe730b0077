//! Generations of workers: what tells them apart, and how many pods each has now.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::pod::template;
use super::{Retiring, replicas};
use crate::config::Config;
use crate::dereference::{Observed, SeenDeployment};
use crate::names;
use crate::roll::{self, Component, Pods, Targets};
use crate::validated::{ValidatedComponent, ValidatedGraph};

/// Goes into every hash, so that a change of what is hashed is one of the hash too.
const FORM: u32 = 1;

/// A rolling update that is going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rolling {
    /// Earlier generations that still have pods.
    pub from: Vec<String>,
    /// Components with only pods of the wanted generation, all ready.
    pub updated: Vec<String>,
}

/// Names a generation of workers by all that ends up in their pods, so that workers of one generation fit together and any
/// change makes a new one. Replicas, adapters, models, restarts and pull secrets are not part of it. None without workers.
pub fn worker_hash(graph: &ValidatedGraph, config: &Config) -> Option<String> {
    let mut workers: Vec<_> = graph.components.iter().filter(|component| component.is_worker()).collect();
    if workers.is_empty() {
        return None;
    }
    workers.sort_by(|one, other| one.lower.cmp(&other.lower));
    let parts: Vec<_> = workers
        .iter()
        .map(|worker| {
            json!({
                "name": worker.lower,
                "type": worker.component_type.name(),
                "namespace": worker.dynamo_namespace,
                "template": template(graph, worker, config),
            })
        })
        .collect();
    Some(names::hash(json!({"form": FORM, "suffix": graph.has_suffix, "workers": parts}).to_string().as_bytes()))
}

/// Where all generations of workers stand.
pub(super) struct Generations<'a> {
    components: BTreeMap<String, Component>,
    targets: BTreeMap<String, Targets>,
    old: Vec<&'a SeenDeployment>,
}

pub(super) fn generations<'a>(graph: &ValidatedGraph, observed: &'a Observed, hash: Option<&str>) -> Generations<'a> {
    let mut generations = Generations { components: BTreeMap::new(), targets: BTreeMap::new(), old: Vec::new() };
    let Some(hash) = hash else { return generations };
    for worker in graph.components.iter().filter(|component| component.is_worker()) {
        let wanted = replicas(worker, observed);
        let mut component =
            Component { wanted, update: worker.strategy.update(wanted), new: Pods::default(), old: BTreeMap::new() };
        for seen in observed.deployments.iter().filter(|seen| seen.component == worker.lower) {
            let pods = Pods { replicas: seen.replicas, ready: seen.available };
            match &seen.hash {
                Some(other) if other == hash => component.new = pods,
                Some(other) => {
                    component.old.insert(other.clone(), pods);
                    generations.old.push(seen);
                }
                None => {}
            }
        }
        generations.components.insert(worker.lower.clone(), component);
    }
    generations.targets = roll::targets(&generations.components);
    generations
}

impl Generations<'_> {
    /// Replicas that the wanted generation of a worker has room for.
    pub(super) fn target(&self, component: &ValidatedComponent) -> Option<u32> {
        self.targets.get(&component.lower).map(|targets| targets.new)
    }

    pub(super) fn retiring(&self) -> Vec<Retiring> {
        let of = |seen: &&SeenDeployment| {
            let hash = seen.hash.as_ref()?;
            let replicas = *self.targets.get(&seen.component)?.old.get(hash)?;
            let is_drained = seen.replicas == 0 && seen.available == 0;
            Some(Retiring { name: seen.name.clone(), replicas, is_drained })
        };
        self.old.iter().filter_map(of).collect()
    }

    pub(super) fn rolling(&self) -> Option<Rolling> {
        let from: BTreeSet<_> = self.old.iter().filter_map(|seen| seen.hash.clone()).collect();
        if from.is_empty() {
            return None;
        }
        let through = |component: &&Component| {
            component.old.values().all(|pods| pods.replicas == 0) && component.new.ready >= component.wanted
        };
        let updated = self.components.iter().filter(|(_, component)| through(component)).map(|(name, _)| name.clone());
        Some(Rolling { from: from.into_iter().collect(), updated: updated.collect() })
    }
}
