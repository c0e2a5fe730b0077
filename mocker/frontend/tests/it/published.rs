//! Before workers of the published release 1.6.1.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use dynosim_frontend::{Frontend, FrontendConfig, RoutingMode};
use dynosim_wire::card::ModelFiles;
use dynosim_wire::{DiscoveryConfig, RequestPlane, Runtime};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::client::{Answer, get, post};
use crate::fake::runtime_at;
use crate::fleet::{config, metric};

/// Python programs take seconds to start.
const START_DEADLINE: Duration = Duration::from_secs(90);

/// A program, or none if the test is to be skipped: said loudly, and a failure where everything must be there.
fn program(name: &str, candidates: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let found = candidates.into_iter().find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("DYNOSIM_SHARED").is_none(), "{name} is missing");
        let note = format!("SKIPPED {}: {name} is missing\n", std::thread::current().name().unwrap_or("a test"));
        std::io::stderr().write_all(note.as_bytes()).unwrap();
    }
    found
}

fn python() -> Option<PathBuf> {
    let home = std::env::var_os("BENCH_HOME").map(PathBuf::from);
    let cache = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/dynosim-bench"));
    program("the published release", [home.or_else(cache).unwrap_or_default().join("dynamo-1.6.1/bin/python")])
}

fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    program(name, std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]).map(|folder| folder.join(name)))
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn spawn(command: &mut Command, log: &Path) -> Child {
    let log = std::fs::File::create(log).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).kill_on_drop(true).spawn().unwrap()
}

/// A serving graph: stores, published workers, and our frontend.
struct Graph {
    python: PathBuf,
    folder: TempDir,
    runtime: Runtime,
    environment: Vec<(String, String)>,
    planes: Vec<&'static str>,
    children: Vec<Child>,
}

impl Graph {
    /// Over a folder and TCP.
    fn over_files() -> Option<Self> {
        let python = python()?;
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let environment = vec![("DYN_FILE_KV".to_owned(), root.display().to_string())];
        let runtime = runtime_at(DiscoveryConfig::File { root, ttl: Duration::from_secs(10) });
        let planes = vec!["--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq"];
        Some(Self { python, folder, runtime, environment, planes, children: Vec::new() })
    }

    /// Over etcd and NATS.
    async fn over_servers() -> Option<Self> {
        let (python, etcd, nats) = (python()?, installed("etcd")?, installed("nats-server")?);
        let folder = tempfile::tempdir().unwrap();
        let [client, peer, port] = [free_port(), free_port(), free_port()];
        let (url, peer_url) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut server = Command::new(etcd);
        server.args(["--name", "test", "--data-dir"]).arg(folder.path().join("etcd"));
        server.args(["--listen-client-urls", &url, "--advertise-client-urls", &url, "--listen-peer-urls", &peer_url]);
        server.args(["--initial-advertise-peer-urls", &peer_url, "--initial-cluster", &format!("test={peer_url}")]);
        let mut children = vec![spawn(&mut server, &folder.path().join("etcd.log"))];
        let mut server = Command::new(nats);
        server.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"]).arg(folder.path().join("nats"));
        children.push(spawn(&mut server, &folder.path().join("nats.log")));
        for port in [client, port] {
            let up = || async { TcpStream::connect(("127.0.0.1", port)).is_ok() };
            wait("a server", up).await;
        }
        let nats = format!("nats://127.0.0.1:{port}");
        let environment = vec![("ETCD_ENDPOINTS".to_owned(), url.clone()), ("NATS_SERVER".to_owned(), nats.clone())];
        let mut runtime = runtime_at(DiscoveryConfig::Etcd { endpoints: vec![url], ttl: Duration::from_secs(10) });
        runtime.request_plane = RequestPlane::Nats(nats);
        let planes = vec!["--discovery-backend", "etcd", "--request-plane", "nats", "--event-plane", "nats"];
        Some(Self { python, folder, runtime, environment, planes, children })
    }

    fn worker(&mut self, arguments: &[&str]) {
        let model = ModelFiles::open("some/model").unwrap().folder;
        let mut command = Command::new(&self.python);
        command.args(["-m", "dynamo.mocker", "--model-name", "tiny", "--speedup-ratio", "1000", "--block-size", "64"]);
        command.arg("--model-path").arg(model).args(&self.planes).args(arguments);
        command.env("HF_HUB_OFFLINE", "1").env("DYN_TCP_RPC_HOST", "127.0.0.1").env("DYN_HTTP_RPC_HOST", "127.0.0.1");
        command.envs(self.environment.iter().cloned());
        let log = self.folder.path().join(format!("worker{}.log", self.children.len()));
        self.children.push(spawn(&mut command, &log));
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
        let files = std::fs::read_dir(self.folder.path()).unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.map(|path| std::fs::read_to_string(path).unwrap_or_default()).collect()
    }
}

async fn poll<F: Future<Output = bool>>(done: impl Fn() -> F) {
    while !done().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn wait<F: Future<Output = bool>>(what: &str, done: impl Fn() -> F) {
    assert!(tokio::time::timeout(START_DEADLINE, poll(done)).await.is_ok(), "in vain: {what}");
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
    let Some(mut graph) = Graph::over_servers().await else { return };
    graph.worker(&[]);
    check(&graph, RoutingMode::RoundRobin, 384).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefill_and_decode_meet_over_etcd_and_nats() {
    let Some(mut graph) = Graph::over_servers().await else { return };
    graph.worker(&["--disaggregation-mode", "prefill", "--bootstrap-ports", &free_port().to_string()]);
    graph.worker(&["--disaggregation-mode", "decode"]);
    check(&graph, RoutingMode::RoundRobin, 384).await;
}
