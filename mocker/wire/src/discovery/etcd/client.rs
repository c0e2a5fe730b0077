//! Calls of etcd's JSON gateway.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::message::{Fault, Refusal};
use crate::limits::MAX_ETCD_ANSWER_BYTES;

/// A server that takes longer to accept a connection is tried later.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// As above for the answer to a call, and for the beginning of a stream.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// A connection without traffic is probed after this long, so that a vanished server is noticed.
const PROBE_AFTER: Duration = Duration::from_secs(10);

/// gRPC's code for a server that cannot serve at the moment.
const UNAVAILABLE: i64 = 14;

/// One or more servers of one store.
#[derive(Debug)]
pub(super) struct EtcdClient {
    http: Client<HttpConnector, Full<Bytes>>,
    endpoints: Vec<String>,
    /// The endpoint that served last.
    current: AtomicUsize,
}

impl EtcdClient {
    pub(super) fn new(endpoints: &[String]) -> Result<Self, Fault> {
        let endpoints: Vec<_> = endpoints.iter().map(|endpoint| base_url(endpoint)).collect::<Result<_, _>>()?;
        if endpoints.is_empty() {
            return Err(Fault::unreachable("(none)", "no endpoint is given"));
        }
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_keepalive(Some(PROBE_AFTER));
        let http = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Ok(Self { http, endpoints, current: AtomicUsize::new(0) })
    }

    /// The endpoint that served last.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoints[self.current.load(Ordering::Relaxed) % self.endpoints.len()]
    }

    /// Asks the endpoints in turn until one answers.
    pub(super) async fn call<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Fault> {
        let answer = self.in_turn(path, body, true).await?;
        serde_json::from_slice(&answer.collected).map_err(|error| Fault::unreachable(self.endpoint(), error))
    }

    /// As [`Self::call`], for an answer of many lines that come one by one.
    pub(super) async fn stream(&self, path: &str, body: &Value) -> Result<Lines, Fault> {
        let answer = self.in_turn(path, body, false).await?;
        let body = answer.rest.ok_or_else(|| Fault::unreachable(self.endpoint(), "no stream"))?;
        Ok(Lines { endpoint: self.endpoint().to_owned(), body, read: BytesMut::new() })
    }

    async fn in_turn(&self, path: &str, body: &Value, whole: bool) -> Result<Answer, Fault> {
        let body = Bytes::from(body.to_string());
        let first = self.current.load(Ordering::Relaxed);
        let mut fault = Fault::unreachable(self.endpoint(), "no endpoint is given");
        for turn in 0..self.endpoints.len() {
            let index = (first + turn) % self.endpoints.len();
            let asked =
                tokio::time::timeout(ANSWER_TIMEOUT, self.ask(&self.endpoints[index], path, &body, whole)).await;
            match asked.unwrap_or_else(|_| Err(Fault::unreachable(&self.endpoints[index], "no answer in time"))) {
                Err(Fault::Unreachable(reason)) => fault = Fault::Unreachable(reason),
                answered => {
                    self.current.store(index, Ordering::Relaxed);
                    return answered;
                }
            }
        }
        Err(fault)
    }

    async fn ask(&self, endpoint: &str, path: &str, body: &Bytes, whole: bool) -> Result<Answer, Fault> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{endpoint}{path}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body.clone()))
            .map_err(|error| Fault::unreachable(endpoint, error))?;
        let response =
            self.http.request(request).await.map_err(|error| Fault::unreachable(endpoint, innermost(&error)))?;
        if response.status() == StatusCode::OK && !whole {
            return Ok(Answer { collected: Bytes::new(), rest: Some(response.into_body()) });
        }
        let status = response.status();
        let collected = collect(response).await.map_err(|reason| Fault::unreachable(endpoint, reason))?;
        if status == StatusCode::OK {
            return Ok(Answer { collected, rest: None });
        }
        Err(refusal(endpoint, status, &collected))
    }
}

/// What an endpoint answered: the whole of it, or a stream that has begun.
struct Answer {
    collected: Bytes,
    rest: Option<Incoming>,
}

/// Lines of JSON that a server sends from time to time.
#[derive(Debug)]
pub(super) struct Lines {
    endpoint: String,
    body: Incoming,
    read: BytesMut,
}

impl Lines {
    /// The next line. Nothing is lost if the caller stops waiting.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Result<T, Fault> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.read[searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(searched + end + 1);
                return serde_json::from_slice(&line).map_err(|error| Fault::unreachable(&self.endpoint, error));
            }
            searched = self.read.len();
            if searched > MAX_ETCD_ANSWER_BYTES {
                return Err(Fault::unreachable(&self.endpoint, "a message is too large"));
            }
            let frame = self.body.frame().await;
            let frame = frame.ok_or_else(|| Fault::unreachable(&self.endpoint, "the stream has ended"))?;
            let frame = frame.map_err(|error| Fault::unreachable(&self.endpoint, innermost(&error)))?;
            if let Ok(data) = frame.into_data() {
                self.read.extend_from_slice(&data);
            }
        }
    }
}

/// `host:port` with or without `http://`.
fn base_url(endpoint: &str) -> Result<String, Fault> {
    let (scheme, address) = endpoint.split_once("://").unwrap_or(("http", endpoint));
    let address = address.trim_end_matches('/');
    let url = format!("{scheme}://{address}");
    let valid = url.parse::<http::Uri>().is_ok_and(|uri| uri.path() == "/" && uri.query().is_none());
    match scheme {
        "http" if valid => Ok(url),
        "https" => Err(Fault::unreachable(endpoint, "TLS is not supported (allowed: http://HOST:PORT)")),
        _ => Err(Fault::unreachable(endpoint, "is no address of an etcd server (allowed: http://HOST:PORT)")),
    }
}

async fn collect(response: Response<Incoming>) -> Result<Bytes, String> {
    let collected = Limited::new(response.into_body(), MAX_ETCD_ANSWER_BYTES).collect().await;
    Ok(collected.map_err(|error| error.to_string())?.to_bytes())
}

fn refusal(endpoint: &str, status: StatusCode, body: &[u8]) -> Fault {
    let refusal = serde_json::from_slice(body).unwrap_or_else(|_| Refusal::unnamed(status));
    if refusal.code == UNAVAILABLE || (status.is_server_error() && refusal.code == 0) {
        return Fault::unreachable(endpoint, refusal.reason());
    }
    Fault::Refused { endpoint: endpoint.to_owned(), refusal }
}

/// The cause that says most: outer errors only say that something went wrong.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_plain_http_addresses() {
        for (given, url) in [
            ("http://localhost:2379", "http://localhost:2379"),
            ("http://[::1]:2379/", "http://[::1]:2379"),
            ("etcd:2379", "http://etcd:2379"),
        ] {
            assert_eq!(base_url(given).expect(given), url);
        }
        for bad in ["", "https://etcd:2379", "ftp://etcd", "http://etcd:2379/v3", "http://", "http://e td"] {
            assert!(base_url(bad).is_err(), "{bad}");
        }
    }
}
