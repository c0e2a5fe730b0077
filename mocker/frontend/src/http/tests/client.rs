//! A client that sends bytes as they are given.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer, its chunks put together.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Reply {
    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
        Some(line.split_once(':')?.1.trim())
    }

    /// The body as JSON.
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }
}

/// One connection.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    unread: Vec<u8>,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, unread: Vec::new() }
    }

    /// Sends bytes; a server that has closed already may have answered nevertheless.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Sends a request with a JSON body.
    pub(super) async fn post(&mut self, path: &str, body: &[u8], headers: &str) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body].concat()).await;
    }

    /// Reads until the unread bytes have `mark`, gives back what is before it and takes both away.
    async fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.unread.windows(mark.len()).position(|window| window == mark) {
                let before = self.unread[..at].to_vec();
                self.unread.drain(..at + mark.len());
                return Some(before);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.unread.len() < length && self.more().await {}
        self.unread.drain(..length.min(self.unread.len())).collect()
    }

    async fn more(&mut self) -> bool {
        let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.unread)).await;
        matches!(read.expect("an answer within 10 s"), Ok(1..))
    }

    /// Reads the head of an answer.
    pub(super) async fn head(&mut self) -> Option<(u16, String)> {
        let head = String::from_utf8(self.until(b"\r\n\r\n").await?).unwrap();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, head + "\r\n"))
    }

    /// Reads one chunk of a chunked body; none at its end, or when the connection ends before.
    pub(super) async fn chunk(&mut self) -> Option<String> {
        let size = String::from_utf8(self.until(b"\r\n").await?).unwrap();
        let size = usize::from_str_radix(&size, 16).unwrap();
        let data = self.exactly(size).await;
        self.exactly(2).await;
        (size > 0).then(|| String::from_utf8(data).unwrap())
    }

    /// Reads an answer to its end.
    pub(super) async fn reply(&mut self) -> Option<Reply> {
        let (status, head) = self.head().await?;
        let mut reply = Reply { status, head, body: String::new() };
        if reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await {
                reply.body.push_str(&chunk);
            }
        } else {
            let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
            reply.body = String::from_utf8(self.exactly(length).await).unwrap();
        }
        Some(reply)
    }

    /// Whether the server has closed.
    pub(super) async fn is_closed(&mut self) -> bool {
        self.unread.is_empty() && !self.more().await
    }
}

/// One request on a connection of its own.
pub(super) async fn post(address: SocketAddr, path: &str, body: &[u8], headers: &str) -> Reply {
    let mut client = Client::connect(address).await;
    client.post(path, body, headers).await;
    client.reply().await.expect("an answer")
}

/// One request without body on a connection of its own.
pub(super) async fn get(address: SocketAddr, method: &str, path: &str) -> Reply {
    let mut client = Client::connect(address).await;
    client.send(format!("{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await;
    let (status, head) = client.head().await.expect("an answer");
    let mut reply = Reply { status, head, body: String::new() };
    if method != "HEAD" {
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        reply.body = String::from_utf8(client.exactly(length).await).unwrap();
    }
    reply
}
