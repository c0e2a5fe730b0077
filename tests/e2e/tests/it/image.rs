//! What the image is, as a container sees it.

use dynosim_e2e::{Namespace, image, in_namespace};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// Runs a command to its end in a pod of its own; its exit code and its log.
pub(crate) async fn run(space: &Namespace, name: &str, command: &[&str], args: &[&str]) -> (i32, String) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "main", "image": image(), "imagePullPolicy": "IfNotPresent",
                "workingDir": "/workspace", "command": command, "args": args,
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    });
    space.apply(&pod.to_string()).await;
    let code = space
        .wait(&format!("pod {name} ends"), async || {
            let pod = space.api::<Pod>().get(name).await.map_err(|error| error.to_string())?;
            let status = pod.status.unwrap_or_default().container_statuses.unwrap_or_default();
            let state = status.first().and_then(|container| container.state.clone()).unwrap_or_default();
            state.terminated.as_ref().map(|ended| ended.exit_code).ok_or(format!("{state:?}"))
        })
        .await;
    (code, space.logs(name, None).await)
}

#[tokio::test]
async fn it_replays_without_a_file_to_write() {
    in_namespace("replay", async |space| {
        let args = [
            "--input-tokens",
            "500",
            "--output-tokens",
            "50",
            "--request-count",
            "100",
            "--replay-concurrency",
            "10",
            "--report-json",
            "/dev/null",
        ];
        let (code, log) = run(space, "replay", &["python3", "-m", "dynamo.replay"], &args).await;
        assert_eq!(code, 0, "{log}");
        assert!(log.contains("Request Count (requests)"), "{log}");
    })
    .await;
}

#[tokio::test]
async fn a_report_that_has_no_place_is_named() {
    in_namespace("no-place", async |space| {
        let args = ["--input-tokens", "5", "--output-tokens", "5", "--request-count", "1", "--replay-concurrency", "1"];
        let (code, log) = run(space, "replay", &["python3", "-m", "dynamo.replay"], &args).await;
        assert_eq!(code, 4, "{log}");
        assert!(log.contains("dynamo_replay_report") && log.contains("Read-only"), "{log}");
    })
    .await;
}

#[tokio::test]
async fn what_it_does_not_simulate_ends_with_a_sentence() {
    in_namespace("foreign", async |space| {
        let (code, log) = run(space, "foreign", &["python3", "-m", "dynamo.vllm"], &[]).await;
        assert_eq!(code, 2, "{log}");
        assert!(log.contains("dynamo.mocker"), "{log}");
    })
    .await;
}

#[tokio::test]
async fn its_programs_can_be_run_beside_the_one_that_serves() {
    in_namespace("exec", async |space| {
        let forever = ["-m", "dynamo.frontend", "--discovery-backend", "mem"];
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "frontend"},
            "spec": {
                "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "main", "image": image(), "imagePullPolicy": "IfNotPresent",
                    "command": ["python3"], "args": forever,
                    "readinessProbe": {"httpGet": {"path": "/live", "port": 8000}, "periodSeconds": 1},
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        });
        space.apply(&pod.to_string()).await;
        space.pod_is_ready("frontend").await;
        let version = space.exec("frontend", "main", &["dynosim", "--version"]).await;
        assert!(version.succeeded, "{version:?}");
        assert_eq!(version.output.trim(), concat!("dynosim ", env!("CARGO_PKG_VERSION")));
        let bad = space.exec("frontend", "main", &["dynosim", "replay", "--no-such-flag"]).await;
        assert!(!bad.succeeded && bad.errors.contains("--no-such-flag"), "{bad:?}");
    })
    .await;
}
