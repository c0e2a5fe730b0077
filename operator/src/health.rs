//! `/healthz`, `/readyz` and `/metrics` over HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::{Encoder as _, Registry, TextEncoder};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 64;
/// A request must have come in that time.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// An answer to a path, if there is one.
pub type Answers = Arc<dyn Fn(&str) -> Option<(StatusCode, String)> + Send + Sync>;

/// Answers of a health port: alive as long as it answers; `is_ready` says why not yet.
pub fn health(is_ready: impl Fn() -> Result<(), &'static str> + Send + Sync + 'static) -> Answers {
    Arc::new(move |path| match path {
        "/healthz" => Some((StatusCode::OK, "ok".to_owned())),
        "/readyz" => Some(match is_ready() {
            Ok(()) => (StatusCode::OK, "ok".to_owned()),
            Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason.to_owned()),
        }),
        _ => None,
    })
}

/// Answers of a metrics port.
pub fn metrics(registry: Registry) -> Answers {
    Arc::new(move |path| {
        if path != "/metrics" {
            return None;
        }
        let mut text = Vec::new();
        match TextEncoder::new().encode(&registry.gather(), &mut text) {
            Ok(()) => Some((StatusCode::OK, String::from_utf8_lossy(&text).into_owned())),
            Err(error) => Some((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
        }
    })
}

/// Opens a port.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| format!("{address} cannot be listened on: {error}"))
}

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, answers: Answers) {
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // A closed semaphore would be a bug: nobody closes it.
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let answers = Arc::clone(&answers);
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answers(request.uri().path());
                async move { Ok::<_, Infallible>(respond(answer)) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

fn respond(answer: Option<(StatusCode, String)>) -> Response<Full<Bytes>> {
    let (status, text) = answer.unwrap_or((StatusCode::NOT_FOUND, "not found".to_owned()));
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let text = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, text);
    response
}
