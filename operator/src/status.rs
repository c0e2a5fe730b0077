//! The fifth step: what the graph says of itself, from what was applied and what has become of it.
//!
//! Nothing is claimed that is not there. `Ready` is true only if every component has exactly the pods that are wanted, all of
//! the newest template, and no pod of an earlier generation is left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use dynosim_api::flags::value_of;
use dynosim_api::v1beta1::{
    ComponentStatus, DynamoGraphDeployment, DynamoGraphDeploymentStatus, RestartStatus, RollingUpdateStatus,
};
use dynosim_api::{ComponentType, Invocation};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::build::{Built, replicas};
use crate::dereference::{Observed, SeenDeployment};
use crate::problems::Problem;
use crate::restart::Phase;
use crate::trouble::Trouble;
use crate::validated::{ValidatedComponent, ValidatedGraph};

/// All components serve.
pub const READY: &str = "Ready";
/// What the operator decided that a manifest does not say.
const ADJUSTED: &str = "ManifestAdjusted";
/// Fields that have no effect.
const IGNORED: &str = "FieldsIgnored";
/// Longest message of a condition.
const MESSAGE_MAX: usize = 8192;

/// What a graph's status is made from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The graph with its last status.
    pub graph: &'a DynamoGraphDeployment,
    /// Validated.
    pub valid: &'a ValidatedGraph,
    /// What validation warned of.
    pub warnings: &'a [Problem],
    /// What was built and applied.
    pub built: &'a Built,
    /// What is there since it was applied.
    pub observed: &'a Observed,
    /// Pods that do not start.
    pub troubles: &'a [Trouble],
}

/// The status of a graph whose children were applied.
pub fn of_applied(facts: &Facts<'_>) -> DynamoGraphDeploymentStatus {
    let now = facts.observed.now;
    let mut status = carried_over(facts.graph);
    let mut unready = BTreeMap::new();
    status.components.clear();
    for component in &facts.valid.components {
        let seen = Seen::of(facts, component);
        if let Some(reason) = seen.unready(facts, component) {
            unready.insert(component.name.clone(), reason);
        }
        status.components.insert(component.name.clone(), seen.status(facts, component));
    }
    let (reason, message) = if facts.built.rolling.is_some() {
        ("rolling_update_in_progress", listed(&unready))
    } else {
        (why(&unready), listed(&unready))
    };
    let is_ready = unready.is_empty() && facts.built.rolling.is_none();
    status.state = Some(if is_ready { "successful" } else { "pending" }.to_owned());
    let message = if is_ready { "all components serve".to_owned() } else { message };
    set(&mut status, facts.graph, now, (READY, is_ready, reason, message));
    set_list(&mut status, facts.graph, now, ADJUSTED, "operator_decided", &facts.valid.notes);
    set_list(&mut status, facts.graph, now, IGNORED, "fields_without_effect", facts.warnings);
    status.restart = restart(facts);
    status.rolling_update = rolling(facts, status.rolling_update.take());
    status
}

/// The status of a graph that cannot be used, or whose children could not be applied.
pub fn of_failed(
    graph: &DynamoGraphDeployment,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> DynamoGraphDeploymentStatus {
    let mut status = carried_over(graph);
    status.state = Some("failed".to_owned());
    set(&mut status, graph, now, (READY, false, reason, message.to_owned()));
    status
}

/// Whether a status says that all components serve.
pub fn is_ready(status: Option<&DynamoGraphDeploymentStatus>) -> bool {
    let ready = |condition: &Condition| condition.type_ == READY && condition.status == "True";
    status.is_some_and(|status| status.conditions.iter().any(ready))
}

/// The condition that says why.
pub fn ready(status: &DynamoGraphDeploymentStatus) -> Option<&Condition> {
    status.conditions.iter().find(|condition| condition.type_ == READY)
}

fn carried_over(graph: &DynamoGraphDeployment) -> DynamoGraphDeploymentStatus {
    let mut status = graph.status.clone().unwrap_or_default();
    status.observed_generation = graph.metadata.generation;
    status
}

/// A component's Deployments.
struct Seen<'a> {
    wanted: u32,
    current: Option<&'a SeenDeployment>,
    old: Vec<&'a SeenDeployment>,
}

impl<'a> Seen<'a> {
    fn of(facts: &Facts<'a>, component: &ValidatedComponent) -> Self {
        let hash = facts.built.hash.as_deref().filter(|_| component.is_worker());
        let all = facts.observed.deployments.iter().filter(|seen| seen.component == component.lower);
        let (current, old): (Vec<_>, Vec<_>) = all.partition(|seen| seen.hash.as_deref() == hash);
        Self { wanted: replicas(component, facts.observed), current: current.first().copied(), old }
    }

    fn all(&self) -> impl Iterator<Item = &&'a SeenDeployment> {
        self.old.iter().chain(self.current.iter())
    }

    /// Why it is not ready, with the reason of the whole graph if it were for this one alone.
    fn unready(&self, facts: &Facts<'_>, component: &ValidatedComponent) -> Option<(&'static str, String)> {
        let Some(current) = self.current else {
            return Some(("some_resources_are_not_ready", "its Deployment is not there yet".to_owned()));
        };
        if current.settled && current.replicas == self.wanted && self.old.is_empty() {
            return None;
        }
        let mut text = format!("{} of {} available", current.available, self.wanted);
        let old: u32 =
            self.old.iter().map(|seen| seen.pods).sum::<u32>() + current.pods.saturating_sub(current.updated);
        if old > 0 {
            // Writing to a text cannot fail.
            let _ = write!(text, ", {old} of an earlier state");
        }
        let troubles = facts.troubles.iter().filter(|trouble| trouble.component == component.name);
        let mut lacks_capacity = false;
        let mut told = BTreeSet::new();
        for trouble in troubles {
            lacks_capacity |= trouble.lacks_capacity;
            if told.insert(&trouble.reason) {
                let _ = write!(text, ", pod {}: {}: {}", trouble.pod, trouble.reason, trouble.message);
            }
        }
        if let Some(refusal) = &current.refusal {
            let _ = write!(text, ", no pod can be made: {refusal}");
            lacks_capacity |= refusal.contains("exceeded quota");
        }
        let reason = if lacks_capacity {
            "insufficient_capacity"
        } else if !current.is_current || current.updated < current.replicas || current.replicas != self.wanted {
            "updating"
        } else {
            "pods_not_ready"
        };
        Some((reason, text))
    }

    fn status(&self, facts: &Facts<'_>, component: &ValidatedComponent) -> ComponentStatus {
        let sum = |read: fn(&SeenDeployment) -> u32| self.all().map(|seen| read(seen)).sum::<u32>().cast_signed();
        let gpus = component.is_worker().then(|| component.gpus.unwrap_or_default().cast_signed());
        ComponentStatus {
            component_kind: Some("Deployment".to_owned()),
            component_names: self.all().map(|seen| seen.name.clone()).collect(),
            runtime_namespace: Some(runtime_namespace(facts, component)),
            runtime_component_name: component.is_worker().then(|| runtime_component(component)),
            served_model_name: served_model(component),
            gpus_per_engine: gpus,
            gpus_per_replica: gpus,
            replicas: sum(|seen| seen.pods),
            updated_replicas: self.current.map_or(0, |seen| seen.updated).cast_signed(),
            ready_replicas: Some(sum(|seen| seen.ready)),
            available_replicas: Some(sum(|seen| seen.available)),
            ..ComponentStatus::default()
        }
    }
}

/// The Dynamo namespace that its pods are in: while a generation replaces another, that of the one which is replaced, until the
/// new one has pods for all that is wanted.
fn runtime_namespace(facts: &Facts<'_>, component: &ValidatedComponent) -> String {
    let base = &component.dynamo_namespace;
    match &facts.built.hash {
        Some(hash) if component.is_worker() && facts.valid.has_suffix => {
            let rolling = facts.built.rolling.as_ref();
            let before = rolling.and_then(|rolling| rolling.from.first());
            format!("{base}-{}", before.unwrap_or(hash))
        }
        _ => base.clone(),
    }
}

fn runtime_component(component: &ValidatedComponent) -> String {
    if let Some(flags) = &component.main().worker {
        return flags.component.clone();
    }
    let endpoint = flags(component).and_then(|flags| value_of(flags, "--endpoint"));
    let named = endpoint.and_then(|text| text.trim_start_matches("dyn://").split('.').nth(1));
    let usual = if component.component_type == ComponentType::Prefill { "prefill" } else { "backend" };
    named.unwrap_or(usual).to_owned()
}

/// The model that a worker serves, by its flags.
fn served_model(component: &ValidatedComponent) -> Option<String> {
    if !component.is_worker() {
        return None;
    }
    if let Some(flags) = &component.main().worker {
        return flags.model_name.clone();
    }
    let flags = flags(component)?;
    let names = ["--served-model-name", "--model-name", "--model", "--model-path"];
    names.into_iter().find_map(|name| value_of(flags, name)).map(str::to_owned)
}

fn flags(component: &ValidatedComponent) -> Option<&[String]> {
    match &component.main().invocation {
        Invocation::Ours(_, flags) | Invocation::Module(_, flags) => Some(flags),
        Invocation::Words(words) => Some(words),
        Invocation::Script(_) => None,
    }
}

fn why(unready: &BTreeMap<String, (&'static str, String)>) -> &'static str {
    let reasons: BTreeSet<_> = unready.values().map(|(reason, _)| *reason).collect();
    match reasons.len() {
        0 => "all_resources_are_ready",
        1 => reasons.into_iter().next().unwrap_or_default(),
        _ => "mixed_not_ready_reasons",
    }
}

fn listed(unready: &BTreeMap<String, (&'static str, String)>) -> String {
    let lines: Vec<_> = unready.iter().map(|(name, (_, text))| format!("{name}: {text}")).collect();
    if lines.is_empty() { "earlier generations of workers are still there".to_owned() } else { lines.join("; ") }
}

fn restart(facts: &Facts<'_>) -> Option<RestartStatus> {
    let asked = facts.valid.restart.as_ref()?;
    let phase = match facts.built.restart.phase? {
        Phase::Pending => "Pending",
        Phase::Restarting => "Restarting",
        Phase::Completed => "Completed",
    };
    let named = |lower: &String| facts.valid.component(lower).map(|component| component.name.clone());
    Some(RestartStatus {
        observed_id: Some(asked.id.clone()),
        phase: Some(phase.to_owned()),
        in_progress: facts.built.restart.in_progress.iter().filter_map(named).collect(),
    })
}

fn rolling(facts: &Facts<'_>, before: Option<RollingUpdateStatus>) -> Option<RollingUpdateStatus> {
    let is_going_on = before.as_ref().is_some_and(|before| before.phase.as_deref() == Some("InProgress"));
    let now = || Some(Time(facts.observed.now));
    let names = |lower: &BTreeSet<&str>| {
        let all = facts.valid.components.iter().filter(|component| lower.contains(component.lower.as_str()));
        all.map(|component| component.name.clone()).collect::<Vec<_>>()
    };
    match &facts.built.rolling {
        Some(rolling) => Some(RollingUpdateStatus {
            phase: Some("InProgress".to_owned()),
            start_time: before.filter(|_| is_going_on).map_or_else(now, |before| before.start_time),
            updated_components: names(&rolling.updated.iter().map(String::as_str).collect()),
            ..RollingUpdateStatus::default()
        }),
        None if is_going_on => {
            let workers = facts.valid.components.iter().filter(|component| component.is_worker());
            Some(RollingUpdateStatus {
                phase: Some("Completed".to_owned()),
                end_time: now(),
                updated_components: names(&workers.map(|component| component.lower.as_str()).collect()),
                ..before.unwrap_or_default()
            })
        }
        None => before,
    }
}

fn set_list(
    status: &mut DynamoGraphDeploymentStatus,
    graph: &DynamoGraphDeployment,
    now: Timestamp,
    kind: &str,
    reason: &str,
    problems: &[Problem],
) {
    if problems.is_empty() {
        status.conditions.retain(|condition| condition.type_ != kind);
    } else {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        set(status, graph, now, (kind, true, reason, lines.join("; ")));
    }
}

/// Sets a condition; the time stays unless the status changes.
fn set(
    status: &mut DynamoGraphDeploymentStatus,
    graph: &DynamoGraphDeployment,
    now: Timestamp,
    (kind, is_true, reason, message): (&str, bool, &str, String),
) {
    let is = if is_true { "True" } else { "False" };
    let known = status.conditions.iter().position(|condition| condition.type_ == kind);
    let since = known.map(|index| &status.conditions[index]).filter(|known| known.status == is);
    let condition = Condition {
        type_: kind.to_owned(),
        status: is.to_owned(),
        reason: reason.to_owned(),
        message: shortened(message),
        observed_generation: graph.metadata.generation,
        last_transition_time: since.map_or_else(|| Time(now), |known| known.last_transition_time.clone()),
    };
    match known {
        Some(index) => status.conditions[index] = condition,
        None => status.conditions.push(condition),
    }
}

fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_MAX {
        let end = (0..=MESSAGE_MAX).rev().find(|end| message.is_char_boundary(*end)).unwrap_or_default();
        message.truncate(end);
        message.push('…');
    }
    message
}
