//! Live parts whose wall clock is set while they work.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use dynosim_peers::{Process, find, free_port, http, wait_until};

/// Longer than a record in a folder lives without being touched.
const WATCHED: Duration = Duration::from_secs(12);

/// The library that gives a process the wall clock of a file; monotonic clocks stay.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    find("libfaketime", folders.map(|folder| folder.path().join("faketime/libfaketime.so.1")))
}

struct Clock<'a> {
    library: PathBuf,
    folder: &'a Path,
}

impl Clock<'_> {
    fn set(&self, offset: &str) {
        // Renamed into place, so that nobody reads half of it.
        std::fs::write(self.folder.join("next"), offset).expect("a file");
        std::fs::rename(self.folder.join("next"), self.folder.join("clock")).expect("renamed");
    }

    fn start(&self, name: &str, flags: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynosim"));
        command.arg(name).args(flags).args(["--discovery-backend", "file", "--request-plane", "tcp"]);
        command.args(["--event-plane", "zmq"]).env("DYN_FILE_KV", self.folder.join("kv")).env("DYN_LOG", "warn");
        command.env("LD_PRELOAD", &self.library).env("FAKETIME_TIMESTAMP_FILE", self.folder.join("clock"));
        command.envs([("FAKETIME_NO_CACHE", "1"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]);
        command.env("DYN_TCP_RPC_HOST", "127.0.0.1");
        Process::start(&mut command, &self.folder.join(name))
    }
}

/// The wall clock of the frontend when it took the request, in seconds since 1970. The answer is whole.
fn ask(port: u16) -> i64 {
    let body = r#"{"model": "tiny", "prompt": "hello", "max_tokens": 300, "ignore_eos": true}"#;
    let answer = http(port, "POST", "/v1/completions", body).expect("an answer");
    assert!(answer.contains(r#""completion_tokens":300"#), "{answer}");
    let json = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    json["created"].as_i64().expect("a time")
}

#[test]
#[allow(clippy::disallowed_methods, reason = "waits for other processes")]
fn a_wall_clock_that_is_set_loses_no_worker_and_no_request() {
    let Some(library) = library() else { return };
    let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
    let clock = Clock { library, folder: folder.path() };
    clock.set("+0");
    let frontend = clock.start("frontend", &["--http-host", "127.0.0.1", "--http-port", &port.to_string()]);
    let worker = clock.start("mocker", &["--model-path", "no/such/model", "--model-name", "tiny"]);
    let listed = || http(port, "GET", "/v1/models", "").is_ok_and(|answer| answer.contains("tiny"));
    wait_until("the model is listed", listed);
    for (offset, seconds) in [("+2h", 7200), ("-2h", -14_400)] {
        let before = std::thread::scope(|scope| {
            let request = scope.spawn(|| ask(port));
            std::thread::sleep(Duration::from_millis(300));
            clock.set(offset);
            request.join().expect("a whole answer")
        });
        let set = Instant::now();
        while set.elapsed() < WATCHED {
            assert!(listed(), "{offset}: {}\n{}", frontend.log(), worker.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        let jump = ask(port) - before;
        assert!((seconds..seconds + 120).contains(&jump), "{offset}: the clock went from {before} by {jump} s");
    }
}
