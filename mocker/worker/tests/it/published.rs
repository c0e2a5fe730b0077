//! The published frontend and mocker as processes beside workers of ours.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dynosim_peers::{Process, free_port};
use dynosim_wire::card::{ModelFiles, builtin_files};
use dynosim_wire::discovery::{Bucket, Discovery, Record};
use dynosim_wire::request::RequestClient;
use dynosim_wire::{DiscoveryConfig, EndpointId, EventPlane, RequestPlane, Runtime};
use dynosim_worker::{Worker, WorkerConfig};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::setup::Graph;

/// Programs in Python take their time on a machine that is busy.
const STARTED: Duration = Duration::from_mins(1);
const FILE_TTL: Duration = Duration::from_secs(10);
/// Flags of everything that takes part.
const PLANES: [&str; 6] = ["--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq"];

/// A serving graph of published and own parts, found by files.
pub(crate) struct Mixed {
    python: PathBuf,
    folder: TempDir,
    pub(crate) graph: Graph,
    http: SocketAddr,
    children: Mutex<Vec<(&'static str, Process)>>,
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
            event_host: None,
            handoff_host: None,
        };
        let store = Discovery::connect(&runtime.discovery).await.expect("a store");
        let client = RequestClient::start(&runtime).await.expect("a client");
        let graph = Graph { runtime, store, client };
        let http = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        Self { python: python.to_owned(), folder, graph, http, children: Mutex::default() }
    }

    fn children(&self) -> MutexGuard<'_, Vec<(&'static str, Process)>> {
        self.children.lock().expect("no test panics with it")
    }

    fn model(&self) -> PathBuf {
        self.folder.path().join("model")
    }

    fn start(&self, name: &'static str, module: &str, args: &[&str]) {
        let mut command = Process::of_release(&self.python, module);
        command.args(args).args(PLANES).env("DYN_FILE_KV", self.folder.path().join("store"));
        let child = Process::start(&mut command, &self.folder.path().join(format!("{name}.log")));
        self.children().push((name, child));
    }

    /// The published mocker; waits until it is registered.
    pub(crate) async fn mocker(&mut self, role: &'static str, more: &[&str]) {
        let model = self.model().display().to_string();
        let port = free_port().to_string();
        let mut args = vec!["--model-path", &model, "--model-name", "test"];
        args.extend(["--block-size", "16", "--disaggregation-mode", role]);
        if role == "prefill" {
            args.extend(["--bootstrap-ports", &port]);
        }
        args.extend(more);
        self.start(role, "dynamo.mocker", &args);
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
        let args = ["--http-host", "127.0.0.1", "--http-port", &port, "--router-mode", router_mode];
        self.start("frontend", "dynamo.frontend", &args);
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
    pub(crate) fn kill(&self, name: &str) {
        let mut children = self.children();
        let (_, child) = children.iter_mut().find(|(child, _)| *child == name).expect("it was started");
        child.kill();
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

    /// What a process has said last.
    pub(crate) fn log(&self, name: &str) -> String {
        let children = self.children();
        let child = children.iter().find(|(child, _)| *child == name);
        child.map(|(_, child)| child.log()).unwrap_or_default()
    }
}
