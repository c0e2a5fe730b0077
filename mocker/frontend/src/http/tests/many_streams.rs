//! Thousands of streams at once.

use std::sync::atomic::Ordering;

use super::client::Client;
use super::fake::{Fake, Script, until};
use crate::http::Limits;

const STREAMS: usize = 2_000;
/// Most bytes of one stream that waits for its next token, both ends of the test's connection counted.
const MAX_BYTES_PER_STREAM: usize = 24 * 1024;

/// Memory of this process that is in use, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Other tests use memory too, so the measurement has a process of its own.
#[test]
fn two_thousand_streams_are_small_and_leave_nothing() {
    let measured = concat!(module_path!(), "::in_this_process");
    let name = measured.split_once("::").unwrap().1;
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && output.contains("1 passed"),
        "{output}{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

#[tokio::test]
#[ignore = "measures the memory of its process: run by the test above"]
async fn in_this_process() {
    let (server, seen) = Fake::new(Script::Silent).start(Limits::default()).await;
    let body =
        br#"{"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "stream": true, "max_tokens": 64}"#;
    let mut clients = Vec::with_capacity(STREAMS);
    let before = resident();
    for _ in 0..STREAMS {
        let mut client = Client::connect(server.local_address()).await;
        client.post("/v1/chat/completions", body, "").await;
        clients.push(client);
    }
    for client in &mut clients {
        assert_eq!(client.head().await.unwrap().0, 200);
        assert!(client.chunk().await.unwrap().contains("assistant"));
    }
    assert_eq!(seen.live.load(Ordering::SeqCst), STREAMS);
    let each = resident().saturating_sub(before) / STREAMS;
    assert!(each <= MAX_BYTES_PER_STREAM, "{each} bytes per stream");
    drop(clients);
    until("all work is cancelled", || seen.live.load(Ordering::SeqCst) == 0).await;
}
