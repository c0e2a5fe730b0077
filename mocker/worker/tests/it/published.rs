//! The published frontend and mocker as processes beside workers of ours.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use dynosim_wire::card::{ModelFiles, builtin_files};
use dynosim_wire::discovery::{Bucket, Discovery, Record};
use dynosim_wire::request::RequestClient;
use dynosim_wire::{DiscoveryConfig, EndpointId, EventPlane, RequestPlane, Runtime};
use dynosim_worker::{Worker, WorkerConfig};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::setup::Graph;

/// Programs in Python take their time on a machine that is busy.
const STARTED: Duration = Duration::from_mins(1);
const FILE_TTL: Duration = Duration::from_secs(10);
/// Flags of everything that takes part.
const PLANES: [&str; 6] = ["--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq"];

/// The interpreter that has the published release; none, said loudly, if it is not installed.
pub(crate) fn interpreter() -> Option<PathBuf> {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/dynosim-bench");
    let bench = std::env::var_os("BENCH_HOME").map_or_else(home, PathBuf::from);
    let python = bench.join("dynamo-1.6.1/bin/python");
    if python.is_file() {
        return Some(python);
    }
    assert!(std::env::var_os("DYNOSIM_SHARED").is_none(), "{} is missing", python.display());
    let line = format!("SKIPPED: {} is not there, so nothing was tried with published peers\n", python.display());
    std::io::stderr().write_all(line.as_bytes()).expect("stderr");
    None
}

/// A serving graph of published and own parts, found by files.
pub(crate) struct Mixed {
    python: PathBuf,
    folder: TempDir,
    pub(crate) graph: Graph,
    http: SocketAddr,
    /// Killed when dropped.
    children: Mutex<Vec<(&'static str, Child)>>,
}

impl Mixed {
    pub(crate) async fn new(python: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, content) in builtin_files() {
            let model = folder.path().join("model");
            std::fs::create_dir_all(&model).expect("a folder");
            std::fs::write(model.join(name), content).expect("a file");
        }
        let runtime = Runtime {
            discovery: DiscoveryConfig::File { root: folder.path().join("store"), ttl: FILE_TTL },
            request_plane: RequestPlane::Tcp,
            event_plane: EventPlane::Zmq,
            host: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            port: 0,
        };
        let store = Discovery::connect(&runtime.discovery).await.expect("a store");
        let client = RequestClient::start(&runtime).await.expect("a client");
        let graph = Graph { runtime, store, client };
        let http = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        Self { python: python.to_owned(), folder, graph, http, children: Mutex::default() }
    }

    fn model(&self) -> PathBuf {
        self.folder.path().join("model")
    }

    fn start(&mut self, name: &'static str, args: &[&str]) {
        let log = std::fs::File::create(self.folder.path().join(format!("{name}.log"))).expect("a log");
        let child = Command::new(&self.python)
            .args(args)
            .args(PLANES)
            .env("DYN_FILE_KV", self.folder.path().join("store"))
            .env("DYN_TCP_RPC_HOST", "127.0.0.1")
            .env("HF_HUB_OFFLINE", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("the interpreter starts");
        self.children.get_mut().push((name, child));
    }

    /// The published mocker; waits until it is registered.
    pub(crate) async fn mocker(&mut self, role: &'static str, more: &[&str]) {
        let model = self.model().display().to_string();
        let port = free_port().to_string();
        let mut args = vec!["-m", "dynamo.mocker", "--model-path", &model, "--model-name", "test"];
        args.extend(["--block-size", "16", "--disaggregation-mode", role]);
        if role == "prefill" {
            args.extend(["--bootstrap-ports", &port]);
        }
        args.extend(more);
        self.start(role, &args);
        let component = if role == "prefill" { "prefill" } else { "backend" };
        self.registered(role, component).await;
    }

    async fn registered(&self, name: &str, component: &str) {
        let is_it = |record: &Record| matches!(record, Record::Model(model) if model.component == component);
        let deadline = Instant::now() + STARTED;
        while !self.graph.records(Bucket::Models).await.iter().any(is_it) {
            assert!(Instant::now() < deadline, "{name} does not register: {}", self.log(name));
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// A worker of ours.
    pub(crate) async fn worker(&self, component: &str, args: &str) -> (Worker, WorkerConfig) {
        let config = WorkerConfig {
            endpoint: EndpointId::new("dynamo", component, "generate"),
            model: Arc::new(ModelFiles::open(&self.model().display().to_string()).expect("the model")),
            source_path: self.model().display().to_string(),
            ..self.graph.config(args)
        };
        (self.graph.worker(config.clone()).await, config)
    }

    /// The published frontend; waits until it serves the model.
    pub(crate) async fn frontend(&mut self, router_mode: &str) {
        let port = self.http.port().to_string();
        let args = ["-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", &port];
        self.start("frontend", &[&args[..], &["--router-mode", router_mode]].concat());
        let deadline = Instant::now() + STARTED;
        // A prefill worker is joined a moment after the model is listed, so what counts is a whole answer.
        loop {
            let listed = self.http("GET", "/v1/models", "").await.is_some_and(|(_, body)| body.contains("\"test\""));
            if listed && self.complete("ready?", 1).await.0 == 200 {
                return;
            }
            assert!(Instant::now() < deadline, "no model is served: {}", self.log("frontend"));
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Asks for that many tokens: status and body.
    pub(crate) async fn complete(&self, prompt: &str, max_tokens: u32) -> (u16, String) {
        let body = format!(
            r#"{{"model":"test","prompt":"{prompt}","max_tokens":{max_tokens},"ignore_eos":true,"stream":false}}"#
        );
        self.http("POST", "/v1/completions", &body).await.expect("an answer")
    }

    /// Ends a process at once.
    pub(crate) async fn kill(&self, name: &str) {
        let mut children = self.children.lock().await;
        let (_, child) = children.iter_mut().find(|(child, _)| *child == name).expect("it was started");
        child.kill().await.expect("killed");
    }

    async fn http(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.http).await.ok()?;
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
    }

    pub(crate) fn log(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default();
        let from = text.len().saturating_sub(4000);
        text.get(from..).unwrap_or(&text).to_owned()
    }
}

/// A port that was free a moment ago; the published programs take none as 0.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}
