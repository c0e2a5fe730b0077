//! A graph in one pod: a frontend and a worker that find each other in a folder both have, as non-root, on a read-only root.

use std::fmt::Write as _;

use dynosim_e2e::{Endpoint, Namespace, image, in_namespace};
use futures_util::future::{join_all, try_join_all};
use serde_json::{Value, json};

const MODEL: &str = "nvidia/Llama-3.1-8B-Instruct-FP8";
const HTTP: u16 = 8000;
const SYSTEM: u16 = 9090;

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: graph, labels: {app: graph}}
spec:
  terminationGracePeriodSeconds: 60
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  volumes: [{name: discovery, emptyDir: {}}]
  containers:
";

/// The pod, started with the command lines of published manifests.
fn graph() -> String {
    let secured = "allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}";
    let mut pod = POD.to_owned();
    let parts = [
        ("frontend", HTTP, "dynamo.frontend", String::new()),
        ("worker", SYSTEM, "dynamo.mocker", format!("--model-path, {MODEL}, --model-name, {MODEL}")),
    ];
    for (name, port, module, args) in parts {
        let image = image();
        let _ = write!(
            pod,
            r#"
    - name: {name}
      image: {image}
      imagePullPolicy: IfNotPresent
      workingDir: /workspace
      command: [python3, -m, {module}]
      args: [{args}]
      env:
        - {{name: DYN_DISCOVERY_BACKEND, value: file}}
        - {{name: DYN_FILE_KV, value: /discovery}}
        - {{name: DYN_SYSTEM_PORT, value: "{SYSTEM}"}}
      ports: [{{name: {name}, containerPort: {port}}}]
      readinessProbe: {{httpGet: {{path: /health, port: {port}}}, periodSeconds: 1}}
      livenessProbe: {{httpGet: {{path: /live, port: {port}}}, periodSeconds: 5, timeoutSeconds: 4}}
      securityContext: {{{secured}}}
      volumeMounts: [{{name: discovery, mountPath: /discovery}}]
"#
        );
    }
    pod
}

/// Waits until the graph serves its model, and gives its HTTP port.
async fn serving(space: &Namespace) -> Endpoint {
    space.apply(&graph()).await;
    space.pod_is_ready("graph").await;
    let http = space.pod_port("graph", HTTP);
    space
        .wait("the model is listed", async || {
            let models = http.get("/v1/models").await?;
            if models.body.contains(MODEL) { Ok(()) } else { Err(models.body) }
        })
        .await;
    http
}

fn chat(tokens: u32) -> Value {
    json!({
        "model": MODEL, "stream": true, "max_tokens": tokens, "min_tokens": tokens, "ignore_eos": true,
        "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "What is a serving graph?"}],
    })
}

/// Reads a stream to its end; the number of tokens that its usage tells.
async fn tokens(mut events: dynosim_e2e::Events) -> Result<u64, String> {
    let mut counted = None;
    while let Some(event) = events.next().await? {
        if event == "[DONE]" {
            return counted.ok_or("no usage".into());
        }
        let chunk: Value = serde_json::from_str(&event).map_err(|error| format!("{error}: {event}"))?;
        counted = chunk["usage"]["completion_tokens"].as_u64().or(counted);
    }
    Err("no [DONE]".into())
}

#[tokio::test]
async fn a_chat_completion_streams_through_a_pod_that_may_nothing() {
    in_namespace("chat", async |space| {
        let http = serving(space).await;
        let events = http.stream("/v1/chat/completions", &chat(50)).await.expect("a stream");
        assert_eq!(tokens(events).await, Ok(50));
        let metrics = space.pod_port("graph", HTTP).get("/metrics").await.expect("metrics");
        assert!(metrics.body.contains("dynamo_frontend_requests_total"), "{}", metrics.body);
    })
    .await;
}

#[tokio::test]
async fn a_deleted_pod_finishes_what_runs_and_ends_in_time_with_code_0() {
    in_namespace("delete", async |space| {
        const STREAMS: usize = 32;
        const TOKENS: u32 = 600;
        let http = serving(space).await;
        let body = chat(TOKENS);
        let mut streams = try_join_all((0..STREAMS).map(|_| http.stream("/v1/chat/completions", &body))).await.unwrap();
        // All run: each has sent its first event.
        for stream in &mut streams {
            stream.next().await.expect("it streams").expect("it has just begun");
        }
        let (ended, counts) = tokio::join!(space.delete_pod("graph"), join_all(streams.into_iter().map(tokens)));
        let whole = counts.iter().filter(|count| **count == Ok(u64::from(TOKENS))).count();
        assert_eq!(whole, STREAMS, "{counts:?}");
        assert_eq!(ended.containers.len(), 2, "{ended:?}");
        for (name, state) in &ended.containers {
            assert_eq!(state.exit_code, 0, "{name}: {state:?}");
            let finished = state.finished_at.as_ref().expect("it finished").0;
            assert!(finished < ended.deadline.0, "{name}: {ended:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_pod_loads_the_graph_through_its_service() {
    in_namespace("service", async |space| {
        const ATTEMPTS: u32 = 20;
        serving(space).await;
        let service = format!(
            r#"{{"apiVersion": "v1", "kind": "Service", "metadata": {{"name": "frontend"}},
                "spec": {{"selector": {{"app": "graph"}}, "ports": [{{"port": 80, "targetPort": {HTTP}}}]}}}}"#
        );
        space.apply(&service).await;
        let args = [
            "load",
            "--url",
            "http://frontend",
            "--input-tokens",
            "64",
            "--output-tokens",
            "16",
            "--request-count",
            "40",
            "--replay-concurrency",
            "8",
            "--fail-on-sla",
            "1.0",
            "--sla-ttft-ms",
            "60000",
            "--report-json",
            "/dev/null",
        ];
        // A node learns of a service a moment after it is there; until then, nobody answers at its address.
        let mut attempt = 0;
        let (code, log) = loop {
            attempt += 1;
            let (code, log) = crate::image::run(space, &format!("load-{attempt}"), &["dynosim"], &args).await;
            if attempt == ATTEMPTS || !log.contains("Connection refused") {
                break (code, log);
            }
        };
        assert_eq!(code, 0, "{log}");
        let listed = space.service_port("frontend", 80).get("/v1/models").await.expect("the service answers");
        assert!(listed.body.contains(MODEL), "{}", listed.body);
    })
    .await;
}
