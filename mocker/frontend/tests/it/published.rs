//! Before workers of the published release 1.6.1.

use std::path::PathBuf;
use std::time::Duration;

use dynosim_frontend::{Frontend, FrontendConfig, RoutingMode};
use dynosim_peers::{Etcd, Nats, Process, free_port, release};
use dynosim_wire::card::ModelFiles;
use dynosim_wire::{DiscoveryConfig, RequestPlane, Runtime};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Answer, get, post};
use crate::fake::runtime_at;
use crate::fleet::{config, metric};

/// Python programs take seconds to start.
const START_DEADLINE: Duration = Duration::from_secs(90);

/// A serving graph: stores, published workers, and our frontend.
struct Graph {
    python: PathBuf,
    folder: TempDir,
    runtime: Runtime,
    environment: Vec<(String, String)>,
    planes: Vec<&'static str>,
    children: Vec<Process>,
    /// Ended last.
    _servers: Option<(Etcd, Nats)>,
}

impl Graph {
    /// Over a folder and TCP.
    fn over_files() -> Option<Self> {
        let python = release()?;
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let environment = vec![("DYN_FILE_KV".to_owned(), root.display().to_string())];
        let runtime = runtime_at(DiscoveryConfig::File { root, ttl: Duration::from_secs(10) });
        let planes = vec!["--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq"];
        Some(Self { python, folder, runtime, environment, planes, children: Vec::new(), _servers: None })
    }

    /// Over etcd and NATS.
    fn over_servers() -> Option<Self> {
        let (python, etcd, nats) = (release()?, Etcd::start()?, Nats::start()?);
        let environment = vec![("ETCD_ENDPOINTS".to_owned(), etcd.url()), ("NATS_SERVER".to_owned(), nats.url())];
        let endpoints = vec![etcd.url()];
        let mut runtime = runtime_at(DiscoveryConfig::Etcd { endpoints, ttl: Duration::from_secs(10) });
        runtime.request_plane = RequestPlane::Nats(nats.url());
        let planes = vec!["--discovery-backend", "etcd", "--request-plane", "nats", "--event-plane", "nats"];
        let folder = tempfile::tempdir().unwrap();
        Some(Self { python, folder, runtime, environment, planes, children: Vec::new(), _servers: Some((etcd, nats)) })
    }

    fn worker(&mut self, arguments: &[&str]) {
        let model = ModelFiles::open("some/model").unwrap().folder;
        let mut command = Process::of_release(&self.python, "dynamo.mocker");
        command.args(["--model-name", "tiny", "--speedup-ratio", "1000", "--block-size", "64"]);
        command.arg("--model-path").arg(model).args(&self.planes).args(arguments);
        command.envs(self.environment.iter().cloned());
        let log = self.folder.path().join(format!("worker{}.log", self.children.len()));
        self.children.push(Process::start(&mut command, &log));
    }

    /// Our frontend, once it lists the model.
    async fn frontend(&self, routing: RoutingMode) -> Frontend {
        let config = FrontendConfig { routing, ..config(self.runtime.clone()) };
        let frontend = Frontend::start(config).await.unwrap();
        let listed = || async { get(frontend.address(), "/v1/models").await.body.contains("tiny") };
        assert!(tokio::time::timeout(START_DEADLINE, poll(listed)).await.is_ok(), "not listed: {}", self.logs());
        frontend
    }

    fn logs(&self) -> String {
        self.children.iter().map(Process::log).collect()
    }
}

async fn poll<F: Future<Output = bool>>(done: impl Fn() -> F) {
    while !done().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn body(tokens: u32) -> Value {
    json!({
        "model": "tiny", "prompt": "over and over again ".repeat(20), "max_tokens": tokens, "stream": true,
        "stream_options": {"include_usage": true},
    })
}

async fn ask(frontend: &Frontend, graph: &Graph, tokens: u32) -> (Answer, Value) {
    let answer = post(frontend.address(), &body(tokens)).await;
    assert_eq!(answer.status, 200, "{answer:?} {}", graph.logs());
    let usage = answer.events().last().unwrap()["usage"].clone();
    assert_eq!(usage["prompt_tokens"], 400, "{answer:?}");
    assert_eq!(usage["completion_tokens"], tokens, "{answer:?} {}", graph.logs());
    let finish = answer
        .events()
        .iter()
        .filter_map(|event| event["choices"][0]["finish_reason"].as_str().map(str::to_owned))
        .next_back();
    assert_eq!(finish.as_deref(), Some("length"));
    (answer, usage)
}

/// Streams are right, and a prompt that was seen before is found in the cache.
async fn check(graph: &Graph, routing: RoutingMode, cached: u64) {
    let frontend = graph.frontend(routing).await;
    let (answer, first) = ask(&frontend, graph, 8).await;
    assert_eq!(first["prompt_tokens_details"]["cached_tokens"], 0);
    assert!(answer.text().chars().count() >= 16, "two letters per token: {answer:?}");
    let (_, second) = ask(&frontend, graph, 8).await;
    assert_eq!(second["prompt_tokens_details"]["cached_tokens"], cached);
    assert_eq!(metric(&frontend, r#"dynamo_frontend_output_tokens_total{model="tiny"}"#).await, Some(16.0));
    assert_eq!(metric(&frontend, r#"dynamo_frontend_cached_tokens_sum{model="tiny"}"#).await, Some(cached as f64));
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregated_worker_over_files_and_tcp() {
    let Some(mut graph) = Graph::over_files() else { return };
    graph.worker(&[]);
    check(&graph, RoutingMode::RoundRobin, 384).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefill_and_decode_meet_over_files_and_tcp() {
    let Some(mut graph) = Graph::over_files() else { return };
    graph.worker(&["--disaggregation-mode", "prefill", "--bootstrap-ports", &free_port().to_string()]);
    graph.worker(&["--disaggregation-mode", "decode"]);
    check(&graph, RoutingMode::RoundRobin, 384).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decode_gets_the_result_of_prefill_over_files_and_tcp() {
    let Some(mut graph) = Graph::over_files() else { return };
    graph.worker(&["--disaggregation-mode", "prefill"]);
    graph.worker(&["--disaggregation-mode", "decode"]);
    check(&graph, RoutingMode::LeastLoaded, 384).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregated_worker_over_etcd_and_nats() {
    let Some(mut graph) = Graph::over_servers() else { return };
    graph.worker(&[]);
    check(&graph, RoutingMode::RoundRobin, 384).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefill_and_decode_meet_over_etcd_and_nats() {
    let Some(mut graph) = Graph::over_servers() else { return };
    graph.worker(&["--disaggregation-mode", "prefill", "--bootstrap-ports", &free_port().to_string()]);
    graph.worker(&["--disaggregation-mode", "decode"]);
    check(&graph, RoutingMode::RoundRobin, 384).await;
}

/// With two workers, a prompt is found again only if the router knows who has it.
async fn check_kv(graph: &Graph) {
    let frontend = graph.frontend(RoutingMode::Kv).await;
    ask(&frontend, graph, 8).await;
    let stored = r#"dynamo_component_kv_cache_events_applied{event_type="stored",status="ok"}"#;
    let told = || async { metric(&frontend, stored).await.is_some_and(|count| count >= 1.0) };
    assert!(tokio::time::timeout(START_DEADLINE, poll(told)).await.is_ok(), "no event: {}", graph.logs());
    for _ in 0..6 {
        let (_, usage) = ask(&frontend, graph, 8).await;
        assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 384);
    }
    frontend.shutdown().await;
    // Another one knows it from the worker's answer.
    let frontend = graph.frontend(RoutingMode::Kv).await;
    let recovered = || async { metric(&frontend, "dynosim_router_kv_sources").await >= Some(2.0) };
    assert!(tokio::time::timeout(START_DEADLINE, poll(recovered)).await.is_ok(), "no recovery: {}", graph.logs());
    for _ in 0..3 {
        let (_, usage) = ask(&frontend, graph, 8).await;
        assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 384);
    }
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kv_router_knows_the_caches_of_two_workers_over_files_and_tcp() {
    let Some(mut graph) = Graph::over_files() else { return };
    graph.worker(&[]);
    graph.worker(&[]);
    check_kv(&graph).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kv_router_knows_the_caches_of_two_prefill_workers_over_files_and_tcp() {
    let Some(mut graph) = Graph::over_files() else { return };
    for _ in 0..2 {
        graph.worker(&["--disaggregation-mode", "prefill", "--bootstrap-ports", &free_port().to_string()]);
    }
    graph.worker(&["--disaggregation-mode", "decode"]);
    check_kv(&graph).await;
}
