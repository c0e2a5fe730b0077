//! Processes that talk to each other, and a small HTTP client.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use dynosim_peers::{Etcd, Nats, Process, free_port, wait_until};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_mins(1);

/// Processes that find each other; ended when this goes.
pub(crate) struct Children {
    folder: tempfile::TempDir,
    /// Flags of everything that takes part.
    planes: [&'static str; 6],
    environment: Vec<(&'static str, String)>,
    running: Vec<Process>,
    /// Ended last.
    _servers: Option<(Etcd, Nats)>,
}

impl Children {
    /// In a folder, over TCP and ZMQ.
    pub(crate) fn over_files() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let environment = vec![("DYN_FILE_KV", folder.path().join("kv").display().to_string())];
        let planes = ["--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq"];
        Self { folder, planes, environment, running: Vec::new(), _servers: None }
    }

    /// In etcd, over NATS; none if there are no such servers.
    pub(crate) fn over_servers() -> Option<Self> {
        let (etcd, nats) = (Etcd::start()?, Nats::start()?);
        let environment = vec![("ETCD_ENDPOINTS", etcd.url()), ("NATS_SERVER", nats.url())];
        let planes = ["--discovery-backend", "etcd", "--request-plane", "nats", "--event-plane", "nats"];
        Some(Self { planes, environment, _servers: Some((etcd, nats)), ..Self::over_files() })
    }

    fn start(&mut self, mut command: Command) -> &Process {
        command.args(self.planes).env("DYN_LOG", "warn").env_remove("DYN_SYSTEM_PORT");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let log = self.folder.path().join(format!("{}.log", self.running.len()));
        self.running.push(Process::start(&mut command, &log));
        &self.running[self.running.len() - 1]
    }

    pub(crate) fn frontend(&mut self, python: &Path, router_mode: &str) -> Http {
        let port = free_port();
        let mut command = Process::of_release(python, "dynamo.frontend");
        command.args(["--http-host", "127.0.0.1", "--http-port", &port.to_string(), "--router-mode", router_mode]);
        self.start(command);
        Http { port }
    }

    /// Starts workers and waits for their line. Its number is for [`Children::stop`].
    pub(crate) fn mocker(&mut self, flags: &[&str]) -> usize {
        let number = self.start_mocker(flags);
        let process = &self.running[number];
        wait_until("the worker's line", || process.log().lines().any(|line| line.starts_with("mocker: ")));
        number
    }

    /// Starts workers.
    pub(crate) fn start_mocker(&mut self, flags: &[&str]) -> usize {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynosim"));
        command.args(["mocker", "--model-path", "no/such/model", "--model-name", "tiny"]).args(flags);
        command.env("DYN_TCP_RPC_HOST", "127.0.0.1");
        self.start(command);
        self.running.len() - 1
    }

    /// Waits until a process has ended by itself.
    pub(crate) fn wait(&mut self, number: usize) -> ExitStatus {
        let process = &mut self.running[number];
        wait_until("its end", || process.has_ended());
        process.wait()
    }

    /// Tells a process to stop (SIGTERM) and waits until it has.
    pub(crate) fn stop(&mut self, number: usize) -> ExitStatus {
        self.running[number].terminate()
    }

    /// Files in the folder of discovery.
    pub(crate) fn records(&self) -> usize {
        fn count(folder: &Path) -> usize {
            let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
            entries.flatten().map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
        }
        count(&self.folder.path().join("kv"))
    }
}

/// A client of one server.
pub(crate) struct Http {
    port: u16,
}

impl Http {
    /// Of a server of this machine.
    pub(crate) fn at(port: u16) -> Self {
        Self { port }
    }

    /// Another client of the same server.
    pub(crate) fn again(&self) -> Self {
        Self { port: self.port }
    }

    /// The body of an answer.
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Option<String> {
        self.exchange(method, path, body)?.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> Option<String> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        socket.set_read_timeout(Some(DEADLINE)).ok()?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(head.as_bytes()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// The status of an answer to a prompt; 0 if there is none.
    pub(crate) fn status(&self, model: &str, prompt: &str, max_tokens: u32) -> u16 {
        let body = Self::plain(model, prompt, max_tokens);
        status(&self.exchange("POST", "/v1/chat/completions", &body).unwrap_or_default())
    }

    /// The whole answer of a server that need not be Dynamo's.
    pub(crate) fn ask(&self, model: &str, prompt: &str, max_tokens: u32) -> Value {
        self.answer(&Self::plain(model, prompt, max_tokens))
    }

    fn answer(&self, body: &str) -> Value {
        let text = self.send("POST", "/v1/chat/completions", body).unwrap_or_default();
        let (start, end) = (text.find('{').unwrap_or(0), text.rfind('}').map_or(0, |end| end + 1));
        serde_json::from_str(text.get(start..end).unwrap_or_default()).unwrap_or_default()
    }

    /// A question without Dynamo's extensions.
    fn plain(model: &str, prompt: &str, max_tokens: u32) -> String {
        json!({"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens}).to_string()
    }

    /// The status of a page; 0 if there is none.
    pub(crate) fn get(&self, path: &str) -> u16 {
        status(&self.exchange("GET", path, "").unwrap_or_default())
    }

    pub(crate) fn wait_for_model(&self, model: &str) {
        let start = now();
        while !self.send("GET", "/v1/models", "").is_some_and(|body| body.contains(model)) {
            assert!(now().duration_since(start) < DEADLINE, "the model does not come");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn body(model: &str, prompt: &str, max_tokens: u32, stream: bool) -> String {
        json!({
            "model": model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "stream": stream,
            "nvext": {"extra_fields": ["worker_id", "timing"]},
        })
        .to_string()
    }

    /// The whole answer; null if it is no JSON (an error is an answer too).
    pub(crate) fn chat(&self, model: &str, prompt: &str, max_tokens: u32) -> Value {
        self.answer(&Self::body(model, prompt, max_tokens, false))
    }

    /// The chunks of a streamed answer.
    pub(crate) fn chat_stream(&self, model: &str, prompt: &str, max_tokens: u32) -> Vec<Value> {
        let body = Self::body(model, prompt, max_tokens, true);
        let text = self.send("POST", "/v1/chat/completions", &body).unwrap_or_default();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[allow(clippy::disallowed_methods, reason = "waits for other processes")]
fn now() -> Instant {
    Instant::now()
}
