//! One graph, from what is known to what is written, in five steps.

use std::sync::Arc;
use std::time::Duration;

use dynosim_api::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentStatus};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::core::PartialObjectMeta;
use tokio::time::Instant;

use super::api;
use super::apply::{Applied, Writer};
use super::events::Events;
use super::kept::Key;
use super::queue::Outcome;
use super::scope::Restricted;
use super::world::World;
use super::write_back;
use crate::build::{Built, build};
use crate::config::Config;
use crate::dereference::{Objects, Observed, dereference};
use crate::metrics::Metrics;
use crate::names;
use crate::status::{self, Facts};
use crate::validate::{Valid, validate};

/// A graph that failed for a reason that only a change of it or of the cluster takes away is looked at again after this time.
const LATER: Duration = Duration::from_secs(30);

/// What all reconciliations share.
#[derive(Clone)]
pub struct Context {
    /// Of the cluster.
    pub client: Client,
    /// What is known of it.
    pub world: Arc<World>,
    /// What graphs are built by.
    pub config: Arc<Config>,
    /// Namespaces that others look after.
    pub restricted: Arc<Restricted>,
    /// What graphs are told.
    pub events: Events,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// Why a graph could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It went meanwhile.
    #[error("the graph is to go")]
    Gone,
    /// The watch did not know of an object yet.
    #[error("what is known of the cluster is out of date")]
    Late,
    /// Somebody else made an object of the same name.
    #[error("{0} is there already and belongs to something else")]
    Taken(String),
    /// A built object is not what its type says.
    #[error("cannot be written: {0}")]
    Form(String),
    /// The server does not take an object.
    #[error("{what}: {}", api::reason(.error))]
    Refused {
        /// Kind and name.
        what: String,
        /// What it said.
        error: Box<kube::Error>,
    },
    /// A call failed.
    #[error("{}", api::reason(.0))]
    Call(Box<kube::Error>),
}

impl From<kube::Error> for Fault {
    fn from(error: kube::Error) -> Self {
        Self::Call(Box::new(error))
    }
}

impl Fault {
    /// In one word, for metrics.
    fn category(&self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Late => "conflict",
            Self::Taken(_) => "taken",
            Self::Form(_) => "internal",
            Self::Refused { error, .. } | Self::Call(error) => match api::code(error) {
                Some(403) => "forbidden",
                Some(404) => "not_found",
                Some(409) => "conflict",
                Some(400 | 422) => "bad_request",
                Some(_) => "internal",
                None => "unreachable",
            },
        }
    }

    /// It passes by itself, and users need not hear of it.
    fn is_passing(&self) -> bool {
        matches!(self.category(), "gone" | "conflict" | "unreachable")
    }
}

/// Reconciles a graph, and counts it.
pub async fn reconcile(context: &Context, key: Key) -> Outcome {
    let begun = Instant::now();
    let done = steps(context, &key).await;
    let (outcome, result) = match done {
        Ok(None) | Err(Fault::Gone) => (Outcome::Done, "success"),
        Ok(Some(wait)) => (Outcome::Again(wait), "requeue"),
        Err(fault) => {
            context.metrics.failed(&key.namespace, fault.category());
            if fault.is_passing() {
                tracing::info!(graph = %key, %fault, "tried again");
            } else {
                tracing::warn!(graph = %key, %fault, "cannot be reconciled");
            }
            (Outcome::Failed, "error")
        }
    };
    context.metrics.reconciled(&key, result, begun.elapsed());
    outcome
}

/// The five steps; how long until it is to be looked at again although nothing has changed.
async fn steps(context: &Context, key: &Key) -> Result<Option<Duration>, Fault> {
    let Some(known) = context.world.graph(key) else {
        context.metrics.forget(key);
        return Ok(None);
    };
    if known.is_deleted || context.restricted.has(&key.namespace) {
        return Ok(None);
    }
    let graph = match read(&known.text) {
        Ok(graph) => graph,
        Err(reason) => {
            write_back::unreadable(context, key, &known.text, &reason).await?;
            return Ok(None);
        }
    };
    let observed = observe(context, key, &graph);
    let valid = match validate(&graph, &context.config) {
        Ok(valid) => valid,
        Err(invalid) => {
            let failed = status::of_failed(&graph, "ValidationFailed", &invalid.to_string(), observed.now);
            write_back::status(context, key, &graph, failed).await?;
            return Ok(None);
        }
    };
    let built = build(&valid.graph, &observed, &context.config);
    let writer = Writer { context, graph: key, uid: &known.uid, applied: Applied::default() };
    let applied = match writer.apply(built.children.clone()).await {
        Ok(applied) => applied,
        Err(fault) if fault.is_passing() => return Err(fault),
        Err(fault) => {
            let reason = "failed_to_reconcile_the_resources";
            let failed = status::of_failed(&graph, reason, &fault.to_string(), observed.now);
            write_back::status(context, key, &graph, failed).await?;
            return match fault {
                Fault::Taken(_) => Ok(Some(LATER)),
                fault => Err(fault),
            };
        }
    };
    report(context, key, &graph, &valid, &built, &applied).await?;
    Ok(built.wait)
}

fn read(text: &str) -> Result<DynamoGraphDeployment, String> {
    let reader = &mut serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(reader).map_err(|error| error.to_string())
}

/// The first step on what is known now.
fn observe(context: &Context, key: &Key, graph: &DynamoGraphDeployment) -> Observed {
    let uid = graph.metadata.uid.as_deref().unwrap_or_default();
    let mut objects = Objects { pull_secrets: context.world.pull_secrets(&key.namespace), ..Objects::default() };
    for (kind, _, child) in context.world.children(uid) {
        if kind == api::deployments() {
            objects.deployments.extend(serde_json::from_str::<Deployment>(&child.text));
        } else if kind == api::adapters() && !child.is_deleted {
            objects.adapters.extend(serde_json::from_str(&child.text));
        }
    }
    let account = Key::new(&key.namespace, names::PLANNER_ACCOUNT);
    let account = context.world.child(api::kind("ServiceAccount"), &account);
    let account =
        account.and_then(|account| serde_json::from_str::<PartialObjectMeta<ServiceAccount>>(&account.text).ok());
    objects.planner_owners =
        account.iter().flat_map(|account| account.metadata.owner_references.iter().flatten()).cloned().collect();
    // The server takes an owner that is gone out of the list, and must not find it there again.
    objects.planner_owners.retain(|owner| context.world.has_graph(&Key::new(&key.namespace, &owner.name), &owner.uid));
    objects.has_pod_monitors = context.world.is_complete(super::world::Watched::Children(api::kind("PodMonitor")));
    dereference(graph, &objects, Timestamp::now())
}

/// The fifth step: what has come of it is written to the graph and its adapters.
async fn report(
    context: &Context,
    key: &Key,
    graph: &DynamoGraphDeployment,
    valid: &Valid,
    built: &Built,
    applied: &Applied,
) -> Result<(), Fault> {
    let observed = observe(context, key, graph);
    let troubles = context.world.troubles(key);
    let facts = Facts {
        graph,
        valid: &valid.graph,
        warnings: &valid.warnings,
        built,
        observed: &observed,
        troubles: &troubles,
    };
    let status: DynamoGraphDeploymentStatus = status::of_applied(&facts);
    context.events.adapters(graph, applied);
    write_back::adapters(context, key, &facts, &status).await?;
    write_back::replicas_of_graph(context, key, &facts).await?;
    write_back::worker_hash(context, key, &facts).await?;
    write_back::status(context, key, graph, status).await
}
