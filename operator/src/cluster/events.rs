//! What graphs and adapters are told, only when something changes.

use dynosim_api::v1beta1::{
    DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter, DynamoGraphDeploymentStatus, RollingUpdateStatus,
};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};

use super::apply::Applied;
use crate::drift::MANAGER;
use crate::status::{is_ready, ready};

/// Longest note that the server takes.
const NOTE_MAX: usize = 1024;

/// Publishes events. Failures are logged and nothing else: an event is news, not state.
#[derive(Clone)]
pub struct Events(Recorder);

impl Events {
    /// Of this process.
    pub fn new(client: Client, identity: String) -> Self {
        Self(Recorder::new(client, Reporter { controller: MANAGER.to_owned(), instance: Some(identity) }))
    }

    /// What a new status says that the last one did not.
    pub(super) async fn status(&self, graph: &DynamoGraphDeployment, now: &DynamoGraphDeploymentStatus) {
        let before = graph.status.as_ref();
        let Some(condition) = ready(now) else { return };
        let reason = |status| ready(status).map(|condition| condition.reason.as_str());
        if is_ready(before) != is_ready(Some(now)) || before.and_then(reason) != reason(now) {
            let kind = match condition.reason.as_str() {
                "ValidationFailed" | "failed_to_reconcile_the_resources" | "insufficient_capacity" => {
                    EventType::Warning
                }
                _ => EventType::Normal,
            };
            let word = if condition.status == "True" { "Ready" } else { "NotReady" };
            let note = format!("{}: {}", condition.reason, condition.message);
            self.of_graph(graph, kind, "Reconcile", word, note).await;
        }
        let phase = |rolling: &RollingUpdateStatus| rolling.phase.clone();
        let was = before.and_then(|status| status.rolling_update.as_ref()).and_then(phase);
        let is = now.rolling_update.as_ref().and_then(phase);
        if was != is
            && let Some(is) = is
        {
            let note = "the workers are replaced by a new generation".to_owned();
            self.of_graph(graph, EventType::Normal, "RollingUpdate", &format!("RollingUpdate{is}"), note).await;
        }
    }

    /// Adapters that came and went.
    pub(super) async fn adapters(&self, graph: &DynamoGraphDeployment, applied: &Applied) {
        for name in &applied.made_adapters {
            self.of_graph(graph, EventType::Normal, "Scale", "AdapterCreated", format!("scaling adapter {name}")).await;
        }
        for name in &applied.removed_adapters {
            self.of_graph(graph, EventType::Normal, "Scale", "AdapterDeleted", format!("scaling adapter {name}")).await;
        }
    }

    /// An adapter's number was taken over.
    pub(super) async fn scaled(&self, adapter: &DynamoGraphDeploymentScalingAdapter, from: i32) {
        let event = Event {
            type_: EventType::Normal,
            reason: "Scaled".to_owned(),
            note: Some(format!("from {from} to {} replicas", adapter.spec.replicas)),
            action: "Scale".to_owned(),
            secondary: None,
        };
        self.publish(&event, &adapter.object_ref(&())).await;
    }

    async fn of_graph(
        &self,
        graph: &DynamoGraphDeployment,
        kind: EventType,
        action: &str,
        reason: &str,
        mut note: String,
    ) {
        let end = (0..=NOTE_MAX.min(note.len())).rev().find(|end| note.is_char_boundary(*end)).unwrap_or_default();
        note.truncate(end);
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        self.publish(&event, &graph.object_ref(&())).await;
    }

    async fn publish(&self, event: &Event, about: &k8s_openapi::api::core::v1::ObjectReference) {
        if let Err(error) = self.0.publish(event, about).await {
            tracing::warn!(%error, reason = event.reason, "no event could be published");
        }
    }
}
