//! What goes wrong around live parts: their clock, their servers, their folder, each other.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use dynosim_peers::{Etcd, Nats, Process, clock_library, free_port, http, wait_until};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than a record in a folder lives without being touched.
const WATCHED: Duration = Duration::from_secs(12);
/// Tokens of an answer that takes about two seconds.
const TOKENS: u32 = 300;

/// A frontend and what starts its like.
struct Graph {
    folder: TempDir,
    environment: Vec<(&'static str, String)>,
    port: u16,
}

impl Graph {
    fn new(environment: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let mut environment: Vec<_> = environment.into_iter().collect();
        environment.push(("DYN_TCP_RPC_HOST", "127.0.0.1".to_owned()));
        Self { folder: tempfile::tempdir().expect("a folder"), environment, port: free_port() }
    }

    fn over_files() -> Self {
        let planes = [("DYN_DISCOVERY_BACKEND", "file"), ("DYN_REQUEST_PLANE", "tcp"), ("DYN_EVENT_PLANE", "zmq")];
        let mut graph = Self::new(planes.map(|(name, value)| (name, value.to_owned())));
        graph.environment.push(("DYN_FILE_KV", graph.path("kv").display().to_string()));
        graph
    }

    fn over_servers(etcd: &Etcd, nats: &Nats) -> Self {
        let planes = [("DYN_DISCOVERY_BACKEND", "etcd"), ("DYN_REQUEST_PLANE", "nats"), ("DYN_EVENT_PLANE", "nats")];
        let mut graph = Self::new(planes.map(|(name, value)| (name, value.to_owned())));
        graph.environment.extend([("ETCD_ENDPOINTS", etcd.url()), ("NATS_SERVER", nats.url())]);
        graph
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, name: &str, flags: &[&str], more: Option<(&str, String)>) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynosim"));
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        command.arg(name).args(flags).env("DYN_LOG", "warn").envs(environment).envs(more);
        Process::start(&mut command, &self.path(name))
    }

    fn frontend(&self) -> Process {
        self.start("frontend", &["--http-host", "127.0.0.1", "--http-port", &self.port.to_string()], None)
    }

    fn worker(&self) -> Process {
        self.worker_with(None)
    }

    fn worker_with(&self, more: Option<(&str, String)>) -> Process {
        self.start("mocker", &["--model-path", "no/such/model", "--model-name", "tiny"], more)
    }

    fn lists_the_model(&self) -> bool {
        http(self.port, "GET", "/v1/models", "").is_ok_and(|answer| answer.contains("tiny"))
    }

    /// The body of a whole answer of [`TOKENS`] tokens, or the text of another.
    fn ask(&self) -> Result<Value, String> {
        let body = format!(r#"{{"model": "tiny", "prompt": "hello", "max_tokens": {TOKENS}, "ignore_eos": true}}"#);
        let answer = http(self.port, "POST", "/v1/completions", &body).map_err(|error| error.to_string())?;
        let json = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let json: Value = serde_json::from_str(json).map_err(|_| answer.clone())?;
        if json["usage"]["completion_tokens"] == TOKENS { Ok(json) } else { Err(answer) }
    }

    /// What `change` does while answers are on their way, and the answers.
    fn during_answers(&self, count: usize, change: impl FnOnce()) -> Vec<Result<Value, String>> {
        std::thread::scope(|scope| {
            let requests: Vec<_> = (0..count).map(|_| scope.spawn(|| self.ask())).collect();
            std::thread::sleep(Duration::from_millis(300));
            change();
            requests.into_iter().map(|request| request.join().expect("no panic")).collect()
        })
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "waits for other processes")]
fn a_wall_clock_that_is_set_loses_no_worker_and_no_request() {
    let Some(library) = clock_library() else { return };
    let mut graph = Graph::over_files();
    let set_clock = |graph: &Graph, offset: &str| {
        // Renamed into place, so that nobody reads half of it.
        std::fs::write(graph.path("next"), offset).expect("a file");
        std::fs::rename(graph.path("next"), graph.path("clock")).expect("renamed");
    };
    set_clock(&graph, "+0");
    let clock = graph.path("clock").display().to_string();
    graph.environment.extend([
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", clock),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ]);
    let (frontend, worker) = (graph.frontend(), graph.worker());
    wait_until("the model is listed", || graph.lists_the_model());
    let created = |answer: Result<Value, String>| answer.expect("a whole answer")["created"].as_i64().expect("a time");
    for (offset, seconds) in [("+2h", 7200), ("-2h", -14_400)] {
        let before = graph.during_answers(1, || set_clock(&graph, offset)).into_iter().map(created).sum::<i64>();
        let set = Instant::now();
        while set.elapsed() < WATCHED {
            assert!(graph.lists_the_model(), "{offset}: {}\n{}", frontend.log(), worker.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        let jump = created(graph.ask()) - before;
        assert!((seconds..seconds + 120).contains(&jump), "{offset}: the clock went from {before} by {jump} s");
    }
}

#[test]
fn a_frontend_that_is_killed_leaves_no_work_behind_and_the_next_one_serves() {
    let (graph, system) = (Graph::over_files(), free_port());
    let mut frontend = graph.frontend();
    let _worker = graph.worker_with(Some(("DYN_SYSTEM_PORT", system.to_string())));
    wait_until("the model is listed", || graph.lists_the_model());
    let running = |count: &str| {
        let metrics = http(system, "GET", "/metrics", "").unwrap_or_default();
        let line = metrics.lines().find(|line| line.starts_with("vllm:num_requests_running{"));
        line.is_some_and(|line| line.ends_with(&format!(" {count}")))
    };
    let answers = graph.during_answers(8, || {
        wait_until("all are running", || running("8"));
        frontend.kill();
        wait_until("their work has ended", || running("0"));
    });
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    let _frontend = graph.frontend();
    wait_until("the next frontend lists the model", || graph.lists_the_model());
    graph.ask().expect("a whole answer");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "waits for other processes")]
fn etcd_and_nats_may_be_away_for_a_while() {
    let (Some(mut etcd), Some(mut nats)) = (Etcd::start(), Nats::start()) else { return };
    let graph = Graph::over_servers(&etcd, &nats);
    let (frontend, worker) = (graph.frontend(), graph.worker());
    wait_until("the model is listed", || graph.lists_the_model());
    graph.ask().expect("a whole answer");
    for wiped in [false, true] {
        let answers = graph.during_answers(4, || {
            etcd.kill();
            nats.kill();
            // Requests that come now may be refused, but none hangs.
            let asked = Instant::now();
            let answer = graph.ask();
            assert!(asked.elapsed() < WATCHED, "{answer:?}");
            if wiped {
                etcd.wipe();
            }
            assert!(etcd.resume());
            nats.resume();
        });
        for answer in answers {
            answer.unwrap_or_else(|answer| panic!("{answer}\n{}\n{}", frontend.log(), worker.log()));
        }
        wait_until("requests are answered again", || graph.ask().is_ok());
    }
}

#[test]
fn a_folder_of_discovery_that_is_removed_loses_no_request() {
    let graph = Graph::over_files();
    let (frontend, worker) = (graph.frontend(), graph.worker());
    wait_until("the model is listed", || graph.lists_the_model());
    // Others may be at making it again already.
    let remove = || while std::fs::remove_dir_all(graph.path("kv")).is_err() && graph.path("kv").exists() {};
    for answer in graph.during_answers(4, remove) {
        answer.expect("a whole answer");
    }
    for _ in 0..2 {
        graph.ask().unwrap_or_else(|answer| panic!("{answer}\n{}\n{}", frontend.log(), worker.log()));
    }
}
