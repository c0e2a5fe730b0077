//! Processes that talk to each other, and a small HTTP client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_mins(1);

/// The published release's Python, if it is there. Fails if it has to be.
pub(super) fn upstream() -> Option<PathBuf> {
    let home = std::env::var_os("BENCH_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache/dynosim-bench")))?;
    let python = home.join("dynamo-1.6.1/bin/python");
    if python.exists() {
        return Some(python);
    }
    assert!(std::env::var_os("DYNOSIM_SHARED").is_none(), "{} is missing", python.display());
    let _ = writeln!(std::io::stderr(), "SKIPPED: the published release is not here ({})", python.display());
    None
}

pub(super) fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).expect("a port").local_addr().expect("an address").port()
}

/// Processes that find each other in one folder; ended when this goes.
pub(super) struct Children {
    folder: tempfile::TempDir,
    running: Vec<Ended>,
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Children {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), running: Vec::new() }
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("DYN_FILE_KV", self.folder.path().join("kv"))
            .env("DYN_TCP_RPC_HOST", "127.0.0.1")
            .env("DYN_HTTP_RPC_HOST", "127.0.0.1")
            .env("HF_HUB_OFFLINE", "1")
            .env("DYN_LOG", "warn")
            .env_remove("DYN_SYSTEM_PORT");
        command
    }

    pub(super) fn frontend(&mut self, python: &Path, router_mode: &str) -> Http {
        let port = free_port();
        let log = std::fs::File::create(self.folder.path().join("frontend.log")).expect("a log");
        let child = self
            .command(python)
            .args(["-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", &port.to_string()])
            .args(["--router-mode", router_mode, "--discovery-backend", "file", "--request-plane", "tcp"])
            .args(["--event-plane", "zmq"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the frontend starts");
        self.running.push(Ended(child));
        Http { port }
    }

    /// Starts workers and waits for their line. Its number is for [`Children::stop`].
    pub(super) fn mocker(&mut self, flags: &[&str]) -> usize {
        let mut child = self
            .command(Path::new(env!("CARGO_BIN_EXE_dynosim")))
            .args(["mocker", "--model-path", "no/such/model", "--model-name", "tiny"])
            .args(["--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq"])
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the worker starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert!(line.starts_with("mocker: "), "{line}");
        self.running.push(Ended(child));
        self.running.len() - 1
    }

    /// Tells a process to stop (SIGTERM) and waits until it has.
    pub(super) fn stop(&mut self, number: usize) -> ExitStatus {
        let child = &mut self.running[number].0;
        let told = Command::new("kill").arg(child.id().to_string()).status().expect("kill runs");
        assert!(told.success());
        child.wait().expect("it ends")
    }

    /// Files in the folder of discovery.
    pub(super) fn records(&self) -> usize {
        fn count(folder: &Path) -> usize {
            let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
            entries.flatten().map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
        }
        count(&self.folder.path().join("kv"))
    }
}

/// A client of one server.
pub(super) struct Http {
    port: u16,
}

impl Http {
    fn send(&self, method: &str, path: &str, body: &str) -> Option<String> {
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
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
    }

    pub(super) fn wait_for_model(&self, model: &str) {
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
    pub(super) fn chat(&self, model: &str, prompt: &str, max_tokens: u32) -> Value {
        let body = Self::body(model, prompt, max_tokens, false);
        let text = self.send("POST", "/v1/chat/completions", &body).unwrap_or_default();
        let (start, end) = (text.find('{').unwrap_or(0), text.rfind('}').map_or(0, |end| end + 1));
        serde_json::from_str(text.get(start..end).unwrap_or_default()).unwrap_or_default()
    }

    /// The chunks of a streamed answer.
    pub(super) fn chat_stream(&self, model: &str, prompt: &str, max_tokens: u32) -> Vec<Value> {
        let body = Self::body(model, prompt, max_tokens, true);
        let text = self.send("POST", "/v1/chat/completions", &body).unwrap_or_default();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

#[allow(clippy::disallowed_methods, reason = "waits for other processes")]
fn now() -> Instant {
    Instant::now()
}
