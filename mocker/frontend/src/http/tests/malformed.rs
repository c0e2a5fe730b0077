//! Requests that are wrong below JSON: heads, lengths, methods, paths, time.

use std::time::Duration;

use super::client::{Client, get, post};
use super::fake::{Fake, Script};
use crate::http::Limits;

const PLAIN: &str = "/v1/completions";
const GOOD: &[u8] = br#"{"model": "tiny", "prompt": "x", "max_tokens": 1}"#;

#[tokio::test]
async fn heads_that_cannot_be_read_are_refused_by_the_protocol() {
    let (server, _) = Fake::new(Script::Words).start(Limits::default()).await;
    let long = format!("GET /live HTTP/1.1\r\na: {}\r\n\r\n", "a".repeat(100_000));
    let many = format!("GET /live HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200));
    let cases: [(&str, &[u8], u16); 7] = [
        ("no colon", b"POST /v1/completions HTTP/1.1\r\nhost x\r\n\r\n", 400),
        ("space in a name", b"GET /live HTTP/1.1\r\nho st: x\r\n\r\n", 400),
        ("version", b"GET /live HTTP/9.9\r\n\r\n", 400),
        ("negative length", b"POST /v1/completions HTTP/1.1\r\ncontent-length: -5\r\n\r\n", 400),
        ("two lengths", b"POST /v1/completions HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n", 400),
        ("long", long.as_bytes(), 431),
        ("many", many.as_bytes(), 431),
    ];
    for (what, bytes, status) in cases {
        let mut client = Client::connect(server.local_address()).await;
        client.send(bytes).await;
        // A refusal may overtake the rest of a long head, whose client then sees a reset connection.
        if let Some(reply) = client.reply().await {
            assert_eq!(reply.status, status, "{what}");
        } else {
            assert_eq!(what, "long");
        }
    }
}

#[tokio::test]
async fn paths_methods_and_types_are_refused_with_an_openai_error() {
    let (server, _) = Fake::new(Script::Words).start(Limits::default()).await;
    let address = server.local_address();
    for (method, path, status, allow) in [
        ("GET", "/nope", 404, None),
        ("GET", "/", 404, None),
        ("POST", "/v1/embeddings", 404, None),
        ("GET", PLAIN, 405, Some("POST")),
        ("PUT", "/v1/chat/completions", 405, Some("POST")),
        ("DELETE", "/v1/models", 405, Some("GET,HEAD")),
        ("POST", "/metrics", 405, Some("GET,HEAD")),
    ] {
        let reply = get(address, method, path).await;
        assert_eq!((reply.status, reply.header("allow")), (status, allow), "{method} {path}");
        assert_eq!(reply.json()["error"]["type"], "invalid_request_error", "{method} {path}");
    }
    for kind in ["", "content-type: text/plain\r\n", "content-type: application/jsonx\r\n"] {
        let mut client = Client::connect(address).await;
        let head = format!("POST {PLAIN} HTTP/1.1\r\ncontent-length: {}\r\n{kind}\r\n", GOOD.len());
        client.send(&[head.as_bytes(), GOOD].concat()).await;
        let reply = client.reply().await.unwrap();
        assert_eq!(reply.status, 415, "{kind:?}");
        assert!(reply.json()["error"]["message"].as_str().unwrap().contains("application/json"));
    }
    for kind in ["application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"] {
        let mut client = Client::connect(address).await;
        let head = format!("POST {PLAIN} HTTP/1.1\r\ncontent-length: {}\r\ncontent-type: {kind}\r\n\r\n", GOOD.len());
        client.send(&[head.as_bytes(), GOOD].concat()).await;
        assert_eq!(client.reply().await.unwrap().status, 200, "{kind:?}");
    }
}

#[tokio::test]
async fn headers_of_our_own_are_checked() {
    let (server, _) = Fake::new(Script::Words).start(Limits::default()).await;
    for header in ["x-request-id: é", "x-dp-rank: -1", "x-worker-instance-id: abc", "x-dynamo-request-priority: 1.5"] {
        let reply = post(server.local_address(), PLAIN, GOOD, &format!("{header}\r\n")).await;
        assert_eq!(reply.status, 400, "{header}");
        let name = header.split(':').next().unwrap();
        assert!(reply.json()["error"]["param"].as_str().unwrap().ends_with(name), "{}", reply.body);
    }
    let long = format!("x-request-id: {}\r\n", "a".repeat(257));
    assert_eq!(post(server.local_address(), PLAIN, GOOD, &long).await.status, 400);
    let reply = post(server.local_address(), PLAIN, GOOD, "x-request-id:\r\n").await;
    assert_eq!((reply.status, reply.header("x-request-id").map(str::len)), (200, Some(36)), "empty: ours");
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused_whether_they_say_so_or_not() {
    let limits = Limits { body_bytes: 1000, ..Limits::default() };
    let (server, _) = Fake::new(Script::Words).start(limits).await;
    let large = format!("{{\"model\": \"tiny\", \"prompt\": \"{}\"}}", "x".repeat(2000));
    let reply = post(server.local_address(), PLAIN, large.as_bytes(), "").await;
    assert_eq!(reply.status, 413);
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains("1000 bytes"), "{}", reply.body);
    let mut client = Client::connect(server.local_address()).await;
    client
        .send(b"POST /v1/completions HTTP/1.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    for _ in 0..3 {
        client.send(format!("190\r\n{}\r\n", "x".repeat(400)).as_bytes()).await;
    }
    assert_eq!(client.reply().await.unwrap().status, 413);
}

#[tokio::test]
async fn a_chunked_body_is_read_and_one_that_never_ends_runs_out_of_time() {
    let limits = Limits { body_time: Duration::from_millis(200), ..Limits::default() };
    let (server, _) = Fake::new(Script::Words).start(limits).await;
    let head = b"POST /v1/completions HTTP/1.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut client = Client::connect(server.local_address()).await;
    client.send(head).await;
    for part in GOOD.chunks(7) {
        client.send(&[format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat()).await;
    }
    client.send(b"0\r\n\r\n").await;
    assert_eq!(client.reply().await.unwrap().status, 200);
    client.send(head).await;
    client.send(b"5\r\n{\"mod\r\n").await;
    let reply = client.reply().await.unwrap();
    assert_eq!((reply.status, reply.header("connection")), (408, Some("close")));
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_head_that_never_ends_and_an_idle_connection_are_closed() {
    let limits = Limits { head_time: Duration::from_millis(200), ..Limits::default() };
    let (server, _) = Fake::new(Script::Words).start(limits).await;
    let mut slow = Client::connect(server.local_address()).await;
    slow.send(b"GET /live HTTP/1.1\r\nhos").await;
    if let Some(reply) = slow.reply().await {
        assert_eq!(reply.status, 408);
    }
    assert!(slow.is_closed().await);
    let mut idle = Client::connect(server.local_address()).await;
    assert!(idle.is_closed().await);
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_a_place() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let (server, _) = Fake::new(Script::Words).start(limits).await;
    let mut first = Client::connect(server.local_address()).await;
    first.post(PLAIN, GOOD, "").await;
    assert_eq!(first.reply().await.unwrap().status, 200);
    let mut second = Client::connect(server.local_address()).await;
    second.post(PLAIN, GOOD, "").await;
    let waits = tokio::time::timeout(Duration::from_millis(100), second.reply()).await;
    assert!(waits.is_err(), "no place yet");
    drop(first);
    assert_eq!(second.reply().await.unwrap().status, 200);
}
