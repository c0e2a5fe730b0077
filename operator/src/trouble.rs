//! Why a pod does not start, from what the cluster says of it.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::keys::label;

/// Reasons for which a container waits that pass by themselves.
const PASSING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// A pod that does not start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    /// Its component as the manifest writes it.
    pub component: String,
    /// Its name.
    pub pod: String,
    /// Why, in one word: `ImagePullBackOff`.
    pub reason: String,
    /// Why, in more words.
    pub message: String,
    /// The cluster has no place for it.
    pub lacks_capacity: bool,
}

/// What keeps a pod from running, if anything does.
pub fn of_pod(pod: &Pod) -> Option<Trouble> {
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let component = pod.metadata.labels.as_ref()?.get(label::COMPONENT)?.clone();
    let status = pod.status.as_ref()?;
    let trouble = |reason: &str, message: Option<String>, lacks_capacity| Trouble {
        component: component.clone(),
        pod: pod.metadata.name.clone().unwrap_or_default(),
        reason: reason.to_owned(),
        message: message.unwrap_or_default(),
        lacks_capacity,
    };
    let mut conditions = status.conditions.iter().flatten();
    if let Some(condition) =
        conditions.find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
    {
        let reason = condition.reason.as_deref().unwrap_or("Unschedulable");
        return Some(trouble(reason, condition.message.clone(), reason == "Unschedulable"));
    }
    let containers = [&status.init_container_statuses, &status.container_statuses];
    let (reason, message) = containers.into_iter().flatten().flatten().find_map(of_container)?;
    Some(trouble(&reason, Some(message), false))
}

fn of_container(status: &ContainerStatus) -> Option<(String, String)> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.clone()?;
    if PASSING.contains(&reason.as_str()) {
        return None;
    }
    let mut message = format!("container {}: {}", status.name, waiting.message.as_deref().unwrap_or(&reason));
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    if let Some(last) = last {
        let said = last.message.as_deref().map(|said| format!(": {}", said.trim())).unwrap_or_default();
        // Writing to a text cannot fail.
        let _ = write!(message, " (it ended with exit code {}{said})", last.exit_code);
    }
    Some((reason, message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(status: &Value) -> Option<Trouble> {
        let metadata = json!({"name": "p", "labels": {label::COMPONENT: "Decode"}});
        let pod = serde_json::from_value(json!({"metadata": metadata, "status": status})).expect("a pod");
        of_pod(&pod)
    }

    #[test]
    fn pods_that_wait_for_what_never_comes_are_in_trouble() {
        let waiting = |reason: &str, message: &str| {
            json!({"containerStatuses": [{"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 1,
                "state": {"waiting": {"reason": reason, "message": message}},
                "lastState": {"terminated": {"exitCode": 2, "message": "bad flag\n"}}}]})
        };
        let found = of(&waiting("CrashLoopBackOff", "back-off 10s")).expect("trouble");
        assert_eq!((found.component.as_str(), found.reason.as_str()), ("Decode", "CrashLoopBackOff"));
        assert_eq!(found.message, "container main: back-off 10s (it ended with exit code 2: bad flag)");
        assert!(!found.lacks_capacity);
        assert_eq!(of(&waiting("ContainerCreating", "")), None);
    }

    #[test]
    fn pods_that_find_no_node_are_in_trouble() {
        let status = |reason: &str| json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/1 nodes"}]});
        let found = of(&status("Unschedulable")).expect("trouble");
        assert!(found.lacks_capacity && found.message == "0/1 nodes");
        assert!(!of(&status("SchedulingGated")).expect("trouble").lacks_capacity);
        assert_eq!(of(&json!({"conditions": [{"type": "PodScheduled", "status": "True"}]})), None);
        assert_eq!(of(&json!({})), None);
    }
}
