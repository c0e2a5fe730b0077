//! What cannot be used is refused before anything starts.

use std::process::Command;

/// Exit code and what is said.
fn run(command: &str, flags: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_dynosim"));
    process.args([command, "--discovery-backend", "kubernetes"]).args(flags);
    for name in ["POD_NAME", "POD_UID", "POD_NAMESPACE", "CONTAINER_NAME", "DYN_KUBE_DISCOVERY_MODE", "DYN_SYSTEM_PORT"]
    {
        process.env_remove(name);
    }
    process.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
    process.env("HOME", "/no/such/home").env("DYN_TCP_RPC_HOST", "127.0.0.1").envs(env.iter().copied());
    let output = process.output().expect("the binary runs");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

const NAME: (&str, &str) = ("POD_NAME", "w");
const UID: (&str, &str) = ("POD_UID", "u");
const COMMANDS: [(&str, [&str; 2]); 2] = [("mocker", ["--model-path", "m"]), ("frontend", ["--http-port", "0"])];

#[test]
fn a_process_that_does_not_know_its_pod_says_what_it_misses() {
    let container = ("DYN_KUBE_DISCOVERY_MODE", "container");
    for (env, message) in [
        (&[UID][..], "POD_NAME: is needed with discovery backend `kubernetes`"),
        (&[NAME], "POD_UID: is needed with discovery backend `kubernetes`"),
        (
            &[NAME, UID, ("DYN_KUBE_DISCOVERY_MODE", "x")],
            "DYN_KUBE_DISCOVERY_MODE: `x` cannot be used (allowed: pod, container)",
        ),
        (&[NAME, UID, container], "CONTAINER_NAME: is needed with DYN_KUBE_DISCOVERY_MODE `container`"),
        (&[("POD_NAME", "W"), UID], "POD_NAME: `W` is no name in Kubernetes"),
        (&[NAME, UID, ("DYN_TCP_RPC_HOST", "pod")], "DYN_TCP_RPC_HOST: `pod` cannot be used"),
        (&[NAME, UID, ("DYN_EVENT_PLANE_HOST", "pod")], "DYN_EVENT_PLANE_HOST: `pod` cannot be used"),
        (&[NAME, UID, ("DYN_HTTP_RPC_HOST", "pod")], "DYN_HTTP_RPC_HOST: `pod` cannot be used"),
    ] {
        for (command, flags) in COMMANDS {
            let (code, text) = run(command, &flags, env);
            assert_eq!(code, Some(2), "{command}: {text}");
            assert!(text.contains(message), "{command}: {text}");
        }
    }
}

#[test]
fn several_workers_in_one_pod_are_refused_with_the_way_to_go() {
    let (code, text) = run("mocker", &["--model-path", "m", "--num-workers", "4"], &[NAME, UID]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("--num-workers: 4 is out of range (allowed with discovery backend `kubernetes`: 1"),
        "{text}"
    );
    assert!(text.contains("run 4 replicas"), "{text}");
}

#[test]
fn without_a_cluster_it_says_where_it_looked() {
    for (command, flags) in COMMANDS {
        let (code, text) = run(command, &flags, &[NAME, UID]);
        assert_eq!(code, Some(4), "{command}: {text}");
        assert!(text.contains("Kubernetes (unknown): "), "{command}: {text}");
        let (code, text) = run(command, &flags, &[NAME, UID, ("KUBECONFIG", "/no/such/kubeconfig")]);
        assert_eq!(code, Some(4), "{command}: {text}");
        assert!(text.contains("/no/such/kubeconfig"), "{command}: {text}");
    }
}

#[test]
fn whether_a_prefix_is_strict_is_yes_or_no() {
    let (code, text) = run("frontend", &["--http-port", "0"], &[NAME, UID, ("DYN_NAMESPACE_PREFIX_STRICT", "maybe")]);
    assert_eq!(code, Some(2), "{text}");
    let message = "DYN_NAMESPACE_PREFIX_STRICT: `maybe` cannot be used (allowed: true, 1, yes, false, 0, no)";
    assert!(text.contains(message), "{text}");
}
