//! Stands between an operator and the API server, and does what networks and crashes do.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::sleep;

type Answer = UnsyncBoxBody<Bytes, kube::Error>;

/// What is done to what goes through.
#[derive(Default)]
pub(crate) struct Mischief {
    /// Events of watches come that much later, and of those that came meanwhile only the last one of each object does.
    pub(crate) watch_delay: Duration,
    /// Answers come that much later, but for leases.
    pub(crate) answer_delay: Duration,
    /// Of so many writes, one is done and its answer lost, as where the storage is slow; 0: none.
    pub(crate) lost_each: u32,
    /// Nothing gets through.
    pub(crate) is_cut: AtomicBool,
    /// After so many writes the rest is refused; 0: never.
    pub(crate) writes_max: AtomicU32,
    /// Writes that came through, but for leases and events.
    pub(crate) writes: AtomicU32,
    /// Told of each write.
    pub(crate) written: Notify,
    /// Told when the connection is cut, to end watches.
    pub(crate) cut: Notify,
    /// Method and path of everything that was asked.
    pub(crate) asked: Mutex<Vec<(Method, String)>>,
}

impl Mischief {
    /// Cuts the connection: watches end, calls are refused.
    pub(crate) fn cut_off(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        self.cut.notify_waiters();
    }

    /// Mends it.
    pub(crate) fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

/// A running proxy.
pub(crate) struct Proxy {
    /// What it does.
    pub(crate) mischief: Arc<Mischief>,
    /// For who is to go through it.
    pub(crate) kubeconfig: PathBuf,
    server: AbortHandle,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Proxy {
    /// Before the server of a client.
    pub(crate) async fn start(name: &str, client: Client, mischief: Mischief) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let kubeconfig = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("proxy-{name}.kubeconfig"));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: \"http://{address}\"}}}}]\n\
             users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
        );
        std::fs::write(&kubeconfig, text).expect("a file");
        let mischief = Arc::new(mischief);
        let shared = Arc::clone(&mischief);
        let server = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let (client, mischief) = (client.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    let service = service_fn(|request| {
                        let (client, mischief) = (client.clone(), Arc::clone(&mischief));
                        async move { Ok::<_, Infallible>(forward(client, mischief, request).await) }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { mischief, kubeconfig, server: server.abort_handle() }
    }
}

fn refusal(status: StatusCode, reason: &str) -> Response<Answer> {
    let body = Full::new(Bytes::from(reason.to_owned())).map_err(|never| match never {});
    let mut response = Response::new(UnsyncBoxBody::new(body));
    *response.status_mut() = status;
    response
}

async fn forward(client: Client, mischief: Arc<Mischief>, request: Request<Incoming>) -> Response<Answer> {
    if mischief.is_cut.load(Ordering::SeqCst) {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "cut off");
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
    mischief.asked.lock().expect("no panic").push((method.clone(), request.uri().to_string()));
    let is_write = method != Method::GET && !path.contains("/leases") && !path.contains("/events");
    if is_write {
        let most = mischief.writes_max.load(Ordering::SeqCst);
        if most > 0 && mischief.writes.load(Ordering::SeqCst) >= most {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "no more writes");
        }
    }
    let number = if is_write { 1 + mischief.writes.fetch_add(1, Ordering::SeqCst) } else { 0 };
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(http::header::HOST);
    let body = body.collect().await.expect("a body").to_bytes();
    let sent = client.send(Request::from_parts(parts, Body::from(body.to_vec()))).await;
    if is_write {
        mischief.written.notify_waiters();
    }
    if !is_watch && !path.contains("/leases") {
        sleep(mischief.answer_delay).await;
    }
    if is_write && mischief.lost_each > 0 && number.is_multiple_of(mischief.lost_each) {
        return refusal(StatusCode::GATEWAY_TIMEOUT, "the request timed out");
    }
    match sent {
        Err(error) => refusal(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
        Ok(response) if is_watch => response.map(|body| watch(body, mischief)),
        Ok(response) => response.map(UnsyncBoxBody::new),
    }
}

/// Events late and thinned out, until the connection is cut.
fn watch(body: Body, mischief: Arc<Mischief>) -> Answer {
    let state = (body.into_data_stream(), Vec::new(), mischief);
    let frames = stream::unfold(state, async |(mut frames, mut rest, mischief)| {
        let cut = mischief.cut.notified();
        let bytes = tokio::select! {
            bytes = frames.next() => bytes?,
            () = cut => return None,
        };
        let mut text: Vec<u8> = std::mem::take(&mut rest);
        text.extend(bytes.ok()?);
        let delay = mischief.watch_delay;
        if delay > Duration::ZERO {
            let late = sleep(delay);
            let mut late = std::pin::pin!(late);
            loop {
                tokio::select! {
                    () = &mut late => break,
                    Some(Ok(bytes)) = frames.next() => text.extend(bytes),
                }
            }
        }
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        rest = text.split_off(end);
        let passed = if delay > Duration::ZERO { thinned(&text) } else { text };
        Some((Ok(Frame::data(Bytes::from(passed))), (frames, rest, mischief)))
    });
    UnsyncBoxBody::new(StreamBody::new(frames))
}

/// Of the events of each object only the last one.
fn thinned(lines: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').collect();
    let about = |line: &[u8]| {
        let event: Value = serde_json::from_slice(line).expect("an event");
        event["object"]["metadata"]["uid"].as_str().map(str::to_owned)
    };
    let uids: Vec<_> = lines.iter().map(|line| about(line)).collect();
    let is_last = |index: usize| uids[index].is_none() || !uids[index + 1..].contains(&uids[index]);
    lines.iter().enumerate().filter(|(index, _)| is_last(*index)).flat_map(|(_, line)| line.iter().copied()).collect()
}
