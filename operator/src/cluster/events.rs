//! What graphs and adapters are told, only when something changes.

use dynosim_api::v1beta1::{
    DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter, DynamoGraphDeploymentStatus, RollingUpdateStatus,
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};
use tokio::sync::mpsc::{Sender, channel};

use super::apply::Applied;
use crate::drift::MANAGER;
use crate::status::{is_ready, ready};

/// Longest note that the server takes.
const NOTE_MAX: usize = 1024;

/// Events that wait to be published; more are left out.
const WAITING_MAX: usize = 1024;

/// Publishes events beside the work that they tell of. Failures are logged and nothing else: an event is news, not state.
#[derive(Clone)]
pub struct Events(Sender<(Event, ObjectReference)>);

impl Events {
    /// Of this process.
    pub fn new(client: Client, identity: String) -> Self {
        let recorder = Recorder::new(client, Reporter { controller: MANAGER.to_owned(), instance: Some(identity) });
        let (sender, mut waiting) = channel::<(Event, ObjectReference)>(WAITING_MAX);
        tokio::spawn(async move {
            while let Some((event, about)) = waiting.recv().await {
                if let Err(error) = recorder.publish(&event, &about).await {
                    tracing::warn!(%error, reason = event.reason, "no event could be published");
                }
            }
        });
        Self(sender)
    }

    /// What a new status says that the last one did not.
    pub(super) fn status(&self, graph: &DynamoGraphDeployment, now: &DynamoGraphDeploymentStatus) {
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
            self.of_graph(graph, kind, "Reconcile", word, note);
        }
        let phase = |rolling: &RollingUpdateStatus| rolling.phase.clone();
        let was = before.and_then(|status| status.rolling_update.as_ref()).and_then(phase);
        let is = now.rolling_update.as_ref().and_then(phase);
        if was != is
            && let Some(is) = is
        {
            let note = "the workers are replaced by a new generation".to_owned();
            self.of_graph(graph, EventType::Normal, "RollingUpdate", &format!("RollingUpdate{is}"), note);
        }
    }

    /// Adapters that came and went.
    pub(super) fn adapters(&self, graph: &DynamoGraphDeployment, applied: &Applied) {
        for name in &applied.made_adapters {
            self.of_graph(graph, EventType::Normal, "Scale", "AdapterCreated", format!("scaling adapter {name}"));
        }
        for name in &applied.removed_adapters {
            self.of_graph(graph, EventType::Normal, "Scale", "AdapterDeleted", format!("scaling adapter {name}"));
        }
    }

    /// An adapter's number was taken over.
    pub(super) fn scaled(&self, adapter: &DynamoGraphDeploymentScalingAdapter, from: i32) {
        let event = Event {
            type_: EventType::Normal,
            reason: "Scaled".to_owned(),
            note: Some(format!("from {from} to {} replicas", adapter.spec.replicas)),
            action: "Scale".to_owned(),
            secondary: None,
        };
        self.publish(event, adapter.object_ref(&()));
    }

    fn of_graph(&self, graph: &DynamoGraphDeployment, kind: EventType, action: &str, reason: &str, mut note: String) {
        let end = (0..=NOTE_MAX.min(note.len())).rev().find(|end| note.is_char_boundary(*end)).unwrap_or_default();
        note.truncate(end);
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        self.publish(event, graph.object_ref(&()));
    }

    fn publish(&self, event: Event, about: ObjectReference) {
        if let Err(error) = self.0.try_send((event, about)) {
            tracing::warn!(%error, "an event is left out");
        }
    }
}
