//! A small HTTP client: one connection per request, read to its end.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Nothing in these tests may take longer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The JSON of each server-sent event but the last, which must be `[DONE]`.
    pub(crate) fn events(&self) -> Vec<Value> {
        let mut events: Vec<_> = self.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(events.pop(), Some("[DONE]"), "{self:?}");
        events.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    /// The text of all events.
    pub(crate) fn text(&self) -> String {
        let of = |event: Value| event["choices"][0]["text"].as_str().map(str::to_owned);
        self.events().into_iter().filter_map(of).collect()
    }
}

/// A streaming completion of `tokens` tokens that reports usage.
pub(crate) fn completion(tokens: u32) -> Value {
    json!({
        "model": "m", "prompt": "abc", "max_tokens": tokens, "ignore_eos": true, "stream": true,
        "stream_options": {"include_usage": true},
    })
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    exchange(address, format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await
}

pub(crate) async fn post(address: SocketAddr, body: &Value) -> Answer {
    exchange(address, request("", body)).await
}

pub(crate) async fn post_with(address: SocketAddr, header: &str, body: &Value) -> Answer {
    exchange(address, request(&format!("{header}\r\n"), body)).await
}

fn request(headers: &str, body: &Value) -> String {
    let (body, path) = (body.to_string(), "/v1/completions");
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

/// Sends a request; the connection then is the caller's.
pub(crate) async fn send(address: SocketAddr, body: &Value) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request("", body).as_bytes()).await.unwrap();
    socket
}

/// Sends a request and reads until `seen` is in what has come; the connection then is the caller's.
pub(crate) async fn open(address: SocketAddr, body: &Value, seen: &str) -> TcpStream {
    let mut socket = send(address, body).await;
    let mut come = Vec::new();
    while !String::from_utf8_lossy(&come).contains(seen) {
        let read = timeout(DEADLINE, socket.read_buf(&mut come)).await.expect("an answer in time").unwrap();
        assert!(read > 0, "closed after {}", String::from_utf8_lossy(&come));
    }
    socket
}

async fn exchange(address: SocketAddr, request: String) -> Answer {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut come = Vec::new();
    timeout(DEADLINE, socket.read_to_end(&mut come)).await.expect("an answer in time").unwrap();
    let text = String::from_utf8(come).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text}"));
    let head = head.to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = if head.contains("transfer-encoding: chunked") { unchunk(body) } else { body.to_owned() };
    Answer { status, head, body }
}

fn unchunk(mut rest: &str) -> String {
    let mut body = String::new();
    loop {
        let (length, after) = rest.split_once("\r\n").expect("a chunk");
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return body;
        }
        body.push_str(&after[..length]);
        rest = &after[length + 2..];
    }
}
