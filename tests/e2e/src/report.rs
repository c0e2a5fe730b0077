//! What happened in a namespace, for messages of failed tests.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Event, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, LogParams};

use crate::{Namespace, pods};

/// Lines of each container's log that are shown.
const LOG_LINES: i64 = 30;

/// Pods with their containers' states and logs, then events in the order they came in.
pub(crate) async fn namespace(space: &Namespace) -> String {
    let mut text = format!("\nnamespace {}\n", space.name());
    let api = space.api::<Pod>();
    for pod in pods::all(&api).await {
        let _ = writeln!(text, "pod {}", self::pod(&pod));
        for container in pods::containers(&pod) {
            let _ = writeln!(text, "  log of {container}:\n{}", log(&api, &pod.name_any(), &container).await);
        }
    }
    for line in events(&space.api()).await {
        let _ = writeln!(text, "event {line}");
    }
    text
}

/// One line on a pod and each of its containers.
pub(crate) fn pod(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let phase = status.phase.unwrap_or_else(|| "without phase".into());
    let mut text = format!("{}: {phase}", pod.name_any());
    for condition in status.conditions.into_iter().flatten().filter(|condition| condition.status != "True") {
        let _ = write!(text, ", not {}: {}", condition.type_, condition.message.unwrap_or_default());
    }
    for status in status.container_statuses.into_iter().flatten() {
        let _ = write!(text, "\n  {}", container(&status));
    }
    text
}

fn container(status: &ContainerStatus) -> String {
    let is = status.state.as_ref().map(state).unwrap_or_default();
    let was = status.last_state.as_ref().map(state).unwrap_or_default();
    let ready = if status.ready { "ready" } else { "not ready" };
    format!("{}: {ready}, {is}, {} restarts {was}", status.name, status.restart_count)
}

fn state(state: &ContainerState) -> String {
    let said = |message: &Option<String>| message.clone().unwrap_or_default();
    match (&state.running, &state.waiting, &state.terminated) {
        (Some(_), ..) => "running".into(),
        (_, Some(waiting), _) => format!("waiting: {} {}", said(&waiting.reason), said(&waiting.message)),
        (.., Some(ended)) => {
            format!("ended with {}: {} {}", ended.exit_code, said(&ended.reason), said(&ended.message))
        }
        _ => String::new(),
    }
}

async fn log(api: &Api<Pod>, pod: &str, container: &str) -> String {
    let params = LogParams { container: Some(container.into()), tail_lines: Some(LOG_LINES), ..LogParams::default() };
    api.logs(pod, &params).await.unwrap_or_else(|error| format!("none: {error}"))
}

async fn events(api: &Api<Event>) -> Vec<String> {
    let mut events = api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    events.sort_by_key(|event| event.creation_timestamp().map(|time| time.0));
    let line = |event: Event| {
        let about = event.involved_object;
        let of = [about.kind, about.name, event.reason, event.message].map(Option::unwrap_or_default);
        of.join(" ")
    };
    events.into_iter().map(line).collect()
}
