//! A tiny `OpenAI` server that streams with known timing and counts what it sees.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::convert::Infallible;
use std::hash::BuildHasherDefault;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use dynosim_engine::hash::mix;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{Receiver, channel};

/// Tokens per block of the server's prefix cache.
pub(crate) const BLOCK: usize = 16;

/// How the server answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Before the first token.
    pub(crate) first: Duration,
    /// Between two tokens.
    pub(crate) gap: Duration,
    /// Tokens in one event.
    pub(crate) per_event: u32,
    /// Closes each connection after its answer.
    pub(crate) close: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { first: Duration::ZERO, gap: Duration::ZERO, per_event: 1, close: false }
    }
}

/// What the server saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Requests in the order of their arrival.
    pub(crate) requests: Vec<Value>,
    pub(crate) in_flight: usize,
    pub(crate) in_flight_max: usize,
    pub(crate) connections: usize,
    /// Chain hashes of all blocks seen.
    cache: HashSet<u64, BuildHasherDefault<DefaultHasher>>,
}

impl Seen {
    /// Prompt length and how much of it is cached; caches all of it.
    fn prompt(&mut self, request: &Value) -> (usize, usize) {
        let text = request["prompt"].as_str().or(request.pointer("/messages/0/content").and_then(Value::as_str));
        let tokens: Vec<u8> = match text {
            Some(text) => text.bytes().collect(),
            None => request["prompt"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u8).collect(),
        };
        let chain = |parent: &mut u64, block: &[u8]| {
            *parent = block.iter().fold(*parent, |hash, &token| mix(hash, token.into()));
            Some(*parent)
        };
        let hashes: Vec<u64> = tokens.chunks_exact(BLOCK).scan(0, |parent, block| chain(parent, block)).collect();
        let cached = hashes.iter().take_while(|hash| self.cache.contains(hash)).count() * BLOCK;
        self.cache.extend(hashes);
        (tokens.len(), cached)
    }
}

/// A running server; it ends with the test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Mutex<Seen>>,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    pub(crate) fn start(pace: Pace) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Seen::default())));
        let shared = Arc::clone(&seen);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                shared.lock().unwrap().connections += 1;
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let service = service_fn(move |request| answer(request, Arc::clone(&shared), pace));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .keep_alive(!pace.close)
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { address, seen, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A body from a channel.
struct Stream(Receiver<Bytes>);

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Seen>>,
    pace: Pace,
) -> Result<Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>, Infallible> {
    let whole = |value: Value| Response::new(Full::new(Bytes::from(value.to_string())).boxed());
    if request.uri().path().ends_with("/v1/models") {
        return Ok(whole(json!({"object": "list", "data": [{"id": "tiny"}]})));
    }
    let chat = request.uri().path() == "/v1/chat/completions";
    let body: Value = serde_json::from_slice(&request.into_body().collect().await.unwrap().to_bytes()).unwrap();
    let tokens = body["max_tokens"].as_u64().unwrap() as u32;
    let (input, cached) = {
        let mut seen = seen.lock().unwrap();
        seen.in_flight += 1;
        seen.in_flight_max = seen.in_flight_max.max(seen.in_flight);
        seen.requests.push(body.clone());
        seen.prompt(&body)
    };
    let details = json!({"cached_tokens": cached});
    let usage = json!({"prompt_tokens": input, "completion_tokens": tokens, "prompt_tokens_details": details});
    if body["stream"] == false {
        tokio::time::sleep(pace.first + pace.gap * (tokens - 1)).await;
        seen.lock().unwrap().in_flight -= 1;
        let choice = json!({"text": "x".repeat(tokens as usize), "finish_reason": "length"});
        return Ok(whole(json!({"choices": [choice], "usage": usage})));
    }
    let (sender, receiver) = channel(4);
    tokio::spawn(async move {
        let event = |value: Value| Bytes::from(format!("data: {value}\n\n"));
        let begin = tokio::time::Instant::now();
        let mut sent = 0;
        while sent < tokens {
            tokio::time::sleep_until(begin + pace.first + pace.gap * sent).await;
            let count = pace.per_event.min(tokens - sent);
            sent += count;
            let text = "x".repeat(count as usize);
            let choice = if chat { json!({"delta": {"content": text}}) } else { json!({"text": text}) };
            let _ = sender.send(event(json!({"id": "cmpl-1", "choices": [choice], "model": "tiny"}))).await;
        }
        seen.lock().unwrap().in_flight -= 1;
        let finish = json!({"choices": [{"text": "", "delta": {}, "finish_reason": "length"}]});
        let tail = [event(finish), event(json!({"choices": [], "usage": usage})), "data: [DONE]\n\n".into()];
        let _ = sender.send(tail.concat().into()).await;
    });
    let stream = Response::builder().header("content-type", "text/event-stream; charset=utf-8");
    Ok(stream.body(Stream(receiver).boxed()).unwrap())
}
