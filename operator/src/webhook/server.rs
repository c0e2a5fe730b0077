//! The HTTPS server.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dynosim_api::convert::review;
use dynosim_api::crd::CONVERSION_PATH;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::core::admission::Operation;
use kube::core::conversion::ConversionReview;
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::body::{self, Budget};
use super::metrics::{Answered, WebhookMetrics};
use crate::admission::{Admission, Question};
use crate::config::Config;

/// Paths of the admission webhooks, as published.
const PATHS: [(&str, Question); 3] = [
    ("/mutate-nvidia-com-v1beta1-dynamographdeployment", Question::MutateGraph),
    ("/validate-nvidia-com-v1beta1-dynamographdeployment", Question::ValidateGraph),
    ("/validate-nvidia-com-v1beta1-dynamographdeploymentscalingadapter", Question::ValidateAdapter),
];
/// Connections at a time; further ones wait to be taken.
const CONNECTIONS: usize = 512;
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection may be silent between requests, or take for the head of one.
const HEAD: Duration = Duration::from_mins(2);
/// How long requests may still take after the end.
const DRAIN: Duration = Duration::from_secs(30);
/// After a connection could not be taken, for want of file descriptors say.
const PAUSE: Duration = Duration::from_millis(100);

/// What answers depend on.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) config: Arc<Config>,
    /// The operator's own user.
    pub(super) user: String,
    pub(super) metrics: WebhookMetrics,
}

#[derive(Clone, Copy, Debug)]
enum Route {
    Admission(Question),
    Conversion,
}

/// Takes connections until `end` and a while longer, and waits for the last answer.
pub(super) async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    answers: Answers,
    end: CancellationToken,
    linger: Duration,
) {
    let (answers, budget) = (Arc::new(answers), Budget::default());
    let (room, tasks) = (Arc::new(Semaphore::new(CONNECTIONS)), TaskTracker::new());
    // Connections go on over the time in which new ones are still taken.
    let close = CancellationToken::new();
    let last = async {
        end.cancelled().await;
        sleep(linger).await;
    };
    tokio::pin!(last);
    loop {
        let accept = async {
            let permit = room.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = &mut last => break,
            accepted = accept => accepted,
        };
        let connection = match accepted {
            Ok((connection, _)) => connection,
            Err(error) => {
                warn!(%error, "a webhook connection cannot be taken");
                sleep(PAUSE).await;
                continue;
            }
        };
        let (acceptor, answers, budget, close) = (acceptor.clone(), answers.clone(), budget.clone(), close.clone());
        tasks.spawn(async move {
            let _permit = permit;
            serve_connection(connection, acceptor, answers, budget, close).await;
        });
    }
    drop(listener);
    close.cancel();
    tasks.close();
    if timeout(DRAIN, tasks.wait()).await.is_err() {
        warn!(connections = tasks.len(), "webhook requests are not answered in time");
    }
}

async fn serve_connection(
    connection: TcpStream,
    acceptor: TlsAcceptor,
    answers: Arc<Answers>,
    budget: Budget,
    close: CancellationToken,
) {
    // Small answers are not to wait for more.
    let _ = connection.set_nodelay(true);
    let connection = match timeout(HANDSHAKE, acceptor.accept(connection)).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return debug!(%error, "no handshake with a webhook client"),
        Err(_) => return,
    };
    let service = service_fn(|request| {
        let (answers, budget) = (answers.clone(), budget.clone());
        async move { Ok::<_, Infallible>(answer(request, answers, budget).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let exchange = builder.serve_connection(TokioIo::new(connection), service);
    tokio::pin!(exchange);
    let ended = tokio::select! {
        ended = exchange.as_mut() => ended,
        () = close.cancelled() => {
            exchange.as_mut().graceful_shutdown();
            exchange.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a webhook connection ended early");
    }
}

async fn answer(request: Request<Incoming>, answers: Arc<Answers>, budget: Budget) -> Response<Full<Bytes>> {
    let route = match route(&request) {
        Ok(route) => route,
        Err(status) => return refuse(status, ""),
    };
    let limit = match route {
        Route::Admission(_) => body::REVIEW,
        Route::Conversion => body::CONVERSION,
    };
    let taken = match budget.read(request, limit).await {
        Ok(taken) => taken,
        Err(status) => return refuse(status, ""),
    };
    // Long lists take a while, and other connections are to go on.
    let answered = tokio::task::spawn_blocking(move || answers.answer(route, &taken.bytes)).await;
    match answered {
        Ok(Ok(body)) => {
            let mut response = Response::new(Full::from(body));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Ok(Err(error)) => refuse(StatusCode::BAD_REQUEST, &format!("not a review: {error}")),
        Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, ""),
    }
}

fn route(request: &Request<Incoming>) -> Result<Route, StatusCode> {
    let path = request.uri().path();
    let admission = PATHS.iter().find(|(known, _)| *known == path).map(|(_, question)| Route::Admission(*question));
    let conversion = (path == CONVERSION_PATH).then_some(Route::Conversion);
    let route = admission.or(conversion).ok_or(StatusCode::NOT_FOUND)?;
    if request.method() == Method::POST { Ok(route) } else { Err(StatusCode::METHOD_NOT_ALLOWED) }
}

fn refuse(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let text = if text.is_empty() { status.canonical_reason().unwrap_or_default() } else { text };
    let mut response = Response::new(Full::from(text.to_owned()));
    *response.status_mut() = status;
    response
}

impl Answers {
    fn answer(&self, route: Route, body: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
        let start = Instant::now();
        match route {
            Route::Admission(question) => {
                let admission = Admission { config: &self.config, operator: &self.user };
                let answer = admission.answer(question, serde_json::from_slice(body)?);
                let operation = match &answer.operation {
                    Some(Operation::Create) => "CREATE",
                    Some(Operation::Update) => "UPDATE",
                    Some(Operation::Delete) => "DELETE",
                    Some(Operation::Connect) => "CONNECT",
                    None => "",
                };
                let denial = answer.denial.map(crate::admission::Denial::label);
                let body = json(&answer.response.into_review())?;
                self.metrics.count(Answered { resource: question.kind(), operation, denial }, start.elapsed());
                Ok(body)
            }
            Route::Conversion => {
                let asked: ConversionReview = serde_json::from_slice(body)?;
                let kind = asked.request.as_ref().and_then(|request| request.objects.first()?["kind"].as_str());
                let resource = resource(kind.unwrap_or_default());
                let answer = review(asked);
                let failed = answer.response.as_ref().is_none_or(|response| {
                    response.result.status != Some(kube::core::response::StatusSummary::Success)
                });
                let denial = failed.then_some("not_converted");
                let body = json(&answer)?;
                self.metrics.count(Answered { resource, operation: "CONVERT", denial }, start.elapsed());
                Ok(body)
            }
        }
    }
}

/// The kind as a label: who calls cannot make up others.
fn resource(kind: &str) -> &'static str {
    [dynosim_api::GRAPH_KIND, dynosim_api::ADAPTER_KIND].into_iter().find(|known| *known == kind).unwrap_or_default()
}

fn json<T: Serialize>(answer: &T) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(answer)
}
