//! Streams: their bytes, how outputs share a write, slow and vanished clients, the end of the server.

use std::sync::atomic::Ordering;
use std::time::Duration;

use dynosim_wire::protocol::FinishReason;

use super::client::{Client, post};
use super::fake::{Fake, Script, end, output, until};
use crate::generate::GenerateError;
use crate::http::Limits;
use crate::http::service::Outcome;

const CHAT: &str = "/v1/chat/completions";
const PLAIN: &str = "/v1/completions";

fn chat(more: &str) -> Vec<u8> {
    format!(r#"{{"model": "tiny", "messages": [{{"role": "user", "content": "hi"}}], "stream": true, {more}}}"#).into()
}

/// Replaces the answer's name and time, which differ from run to run.
fn masked(stream: &str) -> String {
    let mut masked = String::new();
    for line in stream.split_inclusive('\n') {
        let Some(id) = line.find("cmpl-").map(|at| at + 5).and_then(|at| line.get(at..at + 36)) else {
            masked.push_str(line);
            continue;
        };
        let line = line.replace(id, "00000000-0000-4000-8000-000000000000");
        let at = line.find("\"created\":").unwrap() + 10;
        let digits = line[at..].find(',').unwrap();
        masked.push_str(&line.replace(&line[at..at + digits], "1796088552"));
    }
    masked
}

#[tokio::test]
async fn streams_over_the_wire_are_those_of_the_published_frontend() {
    let (server, seen) = Fake::new(Script::Fed).start(Limits::default()).await;
    let cases = [
        (CHAT, chat(r#""max_tokens": 3, "stream_options": {"include_usage": true}"#), include_str!("../../../tests/golden/chat_stream.txt"), ["vg", "uP", "rH"]),
        (PLAIN, br#"{"model": "tiny", "prompt": "hello", "max_tokens": 3, "stream": true, "stream_options": {"include_usage": true}}"#.to_vec(), include_str!("../../../tests/golden/completion_stream.txt"), ["wJ", "to", "wd"]),
    ];
    for (path, body, golden, words) in cases {
        let mut client = Client::connect(server.local_address()).await;
        client.post(path, &body, "x-request-id: my-id\r\n").await;
        until("the request is there", || !seen.feeds.lock().unwrap().is_empty()).await;
        let feed = seen.feeds.lock().unwrap().pop().unwrap();
        for word in words {
            feed.try_send(Ok(output(&[id_of(word)]))).unwrap();
        }
        feed.try_send(Ok(end(FinishReason::Length, 0))).unwrap();
        let reply = client.reply().await.unwrap();
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-type"), Some("text/event-stream"));
        assert_eq!(reply.header("cache-control"), Some("no-cache"));
        assert_eq!(reply.header("x-request-id"), Some("my-id"));
        assert_eq!(masked(&reply.body), golden);
    }
    assert_eq!(seen.requests.lock().unwrap()[0].1, "my-id");
}

/// Id of a two-letter word in the test's vocabulary.
fn id_of(word: &str) -> u32 {
    let letter = |c: u8| u32::from(if c.is_ascii_lowercase() { c - b'a' } else { c - b'A' + 26 });
    let bytes = word.as_bytes();
    258 + letter(bytes[0]) * 52 + letter(bytes[1])
}

#[tokio::test]
async fn outputs_that_have_come_share_a_write_and_the_first_is_not_held_back() {
    let (server, seen) = Fake::new(Script::Fed).start(Limits::default()).await;
    let mut client = Client::connect(server.local_address()).await;
    client.post(CHAT, &chat(r#""max_tokens": 100"#), "").await;
    client.head().await.unwrap();
    let feed = seen.feeds.lock().unwrap().pop().unwrap();
    feed.try_send(Ok(output(&[1000]))).unwrap();
    let first = client.chunk().await.unwrap();
    assert_eq!(first.matches("data: ").count(), 1);
    for token in 0..50 {
        feed.try_send(Ok(output(&[1000 + token]))).unwrap();
    }
    feed.try_send(Ok(end(FinishReason::Length, 0))).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = client.chunk().await {
        frames.push(frame);
    }
    let events: usize = frames.iter().map(|frame| frame.matches("data: ").count()).sum();
    assert_eq!(events, 52, "50 tokens, the end, [DONE]");
    assert!(frames.len() <= 3, "{} frames", frames.len());
    assert!(frames.iter().all(|frame| frame.ends_with("\n\n")), "no event is split");
    until("the observer knows", || seen.tokens.load(Ordering::SeqCst) == 51).await;
    assert_eq!(seen.ends.lock().unwrap()[0].output_tokens, 51);
}

#[tokio::test]
async fn a_stop_text_over_token_borders_ends_the_answer_and_the_work() {
    let (server, seen) = Fake::new(Script::Fed).start(Limits::default()).await;
    let mut client = Client::connect(server.local_address()).await;
    client.post(CHAT, &chat(r#""max_tokens": 100, "stop": ["bAaB"]"#), "").await;
    client.head().await.unwrap();
    let feed = seen.feeds.lock().unwrap().pop().unwrap();
    for word in ["xx", "ab", "Aa", "Bc"] {
        feed.try_send(Ok(output(&[id_of(word)]))).unwrap();
    }
    let mut body = String::new();
    while let Some(frame) = client.chunk().await {
        body.push_str(&frame);
    }
    assert!(
        body.contains(r#"{"content":"a"},"finish_reason":"stop""#) || body.contains(r#"{},"finish_reason":"stop""#),
        "{body}"
    );
    assert!(!body.contains("bA") && !body.contains('B') && body.ends_with("data: [DONE]\n\n"), "{body}");
    until("the work is cancelled", || seen.live.load(Ordering::SeqCst) == 0 && feed.is_closed()).await;
    let ends = seen.ends.lock().unwrap();
    assert_eq!((ends[0].outcome, ends[0].output_tokens), (Outcome::Complete, 4));
}

#[tokio::test]
async fn an_error_in_a_stream_is_an_event_and_the_end() {
    let failure = GenerateError::Failed("the worker died".to_owned());
    let (server, seen) = Fake::new(Script::Break(failure)).start(Limits::default()).await;
    let reply = post(server.local_address(), CHAT, &chat(r#""max_tokens": 5"#), "").await;
    assert_eq!(reply.status, 200);
    let body = reply.body.strip_suffix("data: [DONE]\n\n").unwrap();
    let last = body.trim_end().rsplit("data: ").next().unwrap();
    let error: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(error["error"]["message"], "the worker died");
    assert_eq!(error["error"]["type"], "server_error");
    assert_eq!(seen.ends.lock().unwrap()[0].outcome, Outcome::Failed);
}

#[tokio::test]
async fn annotations_are_events_at_the_head_of_a_stream() {
    let (server, _) = Fake::new(Script::Words).start(Limits::default()).await;
    let body = chat(r#""max_tokens": 1, "nvext": {"annotations": ["token_ids", "formatted_prompt"]}"#);
    let reply = post(server.local_address(), CHAT, &body, "").await;
    let tokens = "117,115,101,114,58,32,104,105,10,97,115,115,105,115,116,97,110,116,58,32";
    let head = format!(
        "event: formatted_prompt\n: \"user: hi\\nassistant: \"\n\nevent: token_ids\n: \"[{tokens}]\"\n\ndata: {{\"id\":"
    );
    assert!(reply.body.starts_with(&head), "{}", reply.body);
}

#[tokio::test]
async fn a_vanished_client_cancels_the_work() {
    let (server, seen) = Fake::new(Script::Fed).start(Limits::default()).await;
    for (path, body) in [(CHAT, chat(r#""max_tokens": 9"#)), (PLAIN, br#"{"model": "tiny", "prompt": "x"}"#.to_vec())] {
        let mut client = Client::connect(server.local_address()).await;
        client.post(path, &body, "").await;
        until("the request is there", || seen.live.load(Ordering::SeqCst) == 1).await;
        drop(client);
        until("the work is cancelled", || seen.live.load(Ordering::SeqCst) == 0).await;
    }
    assert!(seen.ends.lock().unwrap().is_empty(), "nobody was told of an end");
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_reading_of_outputs() {
    let (server, seen) = Fake::new(Script::Fed).start(Limits::default()).await;
    let mut client = Client::connect(server.local_address()).await;
    client.post(CHAT, &chat(r#""max_tokens": 100"#), "").await;
    until("the request is there", || !seen.feeds.lock().unwrap().is_empty()).await;
    let feed = seen.feeds.lock().unwrap().pop().unwrap();
    // Large outputs: the kernel's buffers take some, then the channel stays full.
    let (mut sent, mut still, mut stuck) = (0_usize, 0, 0);
    while still < 100 {
        if feed.try_send(Ok(output(&[1000; 2000]))).is_ok() {
            sent += 1;
            assert!(sent < 100_000, "outputs go on without a reader");
            continue;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        let now = seen.tokens.load(Ordering::SeqCst);
        still = if now == stuck && feed.capacity() == 0 { still + 1 } else { 0 };
        stuck = now;
    }
    assert!(stuck > 0);
    until("it goes on when the client reads", || {
        let mut sink = [0; 8192];
        let _ = client.stream.try_read(&mut sink);
        seen.tokens.load(Ordering::SeqCst) > stuck
    })
    .await;
}

#[tokio::test]
async fn shutdown_lets_streams_end_and_takes_no_more() {
    let (server, seen) = Fake::new(Script::Fed).start(Limits::default()).await;
    let address = server.local_address();
    let mut client = Client::connect(address).await;
    let mut idle = Client::connect(address).await;
    client.post(CHAT, &chat(r#""max_tokens": 9"#), "").await;
    client.head().await.unwrap();
    idle.send(b"GET /live HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(idle.reply().await.unwrap().status, 200);
    let feed = seen.feeds.lock().unwrap().pop().unwrap();
    let down = tokio::spawn(server.shutdown(Duration::from_secs(10)));
    assert!(idle.is_closed().await, "a connection without a request ends at once");
    feed.try_send(Ok(output(&[1000]))).unwrap();
    feed.try_send(Ok(end(FinishReason::Length, 0))).unwrap();
    let mut body = String::new();
    while let Some(chunk) = client.chunk().await {
        body.push_str(&chunk);
    }
    assert!(body.ends_with("data: [DONE]\n\n"));
    tokio::time::timeout(Duration::from_secs(10), down).await.expect("the server ends").unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens");
}

#[tokio::test]
async fn shutdown_closes_what_does_not_end_within_the_grace_time() {
    let (server, seen) = Fake::new(Script::Fed).start(Limits::default()).await;
    let mut client = Client::connect(server.local_address()).await;
    client.post(CHAT, &chat(r#""max_tokens": 9"#), "").await;
    client.head().await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), server.shutdown(Duration::from_millis(50))).await.unwrap();
    assert_eq!(seen.live.load(Ordering::SeqCst), 0, "the work is cancelled");
    assert!(client.is_closed().await);
}
