//! The routes of the system port.

use std::sync::{Arc, Weak};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connections::{Limits, accept};
use super::{Readiness, System, SystemConfig};

/// Closes the port when it is dropped.
pub(super) type Guard = DropGuard;

pub(super) fn spawn(listener: TcpListener, config: &SystemConfig, system: Weak<System>) -> Guard {
    let app = Router::new()
        .route(&config.health_path, get(health))
        .route(&config.live_path, get(live))
        .route("/metrics", get(metrics))
        .route("/metadata", get(async || (StatusCode::NOT_FOUND, "Discovery metadata not available")))
        .route("/v1/metadata/{*path}", get(file))
        .fallback(async || (StatusCode::NOT_FOUND, "Route not found"))
        .with_state(system);
    let stop = CancellationToken::new();
    tokio::spawn(accept(listener, app, Limits::default(), stop.clone()));
    stop.drop_guard()
}

type Shared = State<Weak<System>>;

/// What a request sees of a process that is going.
fn gone() -> Response {
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

async fn health(State(system): Shared) -> Response {
    let Some(system) = system.upgrade() else { return gone() };
    let health = system.health();
    let code = match health.status {
        Readiness::Ready => StatusCode::OK,
        Readiness::NotReady => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, axum::Json(health)).into_response()
}

async fn live(State(system): Shared) -> Response {
    match system.upgrade() {
        Some(system) => axum::Json(system.health()).into_response(),
        None => gone(),
    }
}

async fn metrics(State(system): Shared) -> Response {
    let Some(system) = system.upgrade() else { return gone() };
    match system.metrics_text() {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn file(State(system): Shared, Path(path): Path<String>) -> Response {
    let found = system.upgrade().and_then(|system: Arc<System>| system.file(&path));
    let Some(found) = found else { return (StatusCode::NOT_FOUND, "Route not found").into_response() };
    match tokio::fs::read(&found).await {
        Ok(content) => ([(header::CONTENT_TYPE, "application/octet-stream")], content).into_response(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => StatusCode::NOT_FOUND.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
