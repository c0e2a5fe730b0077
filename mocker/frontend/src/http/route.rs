//! Which request is for whom.
//!
//! There are few routes, all known, so they are a `match`: no router to walk, no boxed handler per request.

use std::sync::Arc;

use ::http::{HeaderValue, Method, Response, StatusCode, header};
use bytes::Bytes;
use hyper::Request;
use hyper::body::Incoming;
use serde_json::json;

use super::server::Limits;
use super::service::{Endpoint, ListedModel, Service};
use super::stream::ResponseBody;
use super::{generate, reply};
use crate::openai::error::ApiError;

/// What a path stands for.
#[derive(Debug, PartialEq, Eq)]
enum Route<'a> {
    Generate(Endpoint),
    Models,
    Model(&'a str),
    Health,
    Live,
    Metrics,
    Explain,
}

impl<'a> Route<'a> {
    fn of(path: &'a str) -> Option<Self> {
        Some(match path {
            "/v1/chat/completions" => Self::Generate(Endpoint::Chat),
            "/v1/completions" => Self::Generate(Endpoint::Completions),
            "/v1/models" => Self::Models,
            "/health" => Self::Health,
            "/live" => Self::Live,
            "/metrics" => Self::Metrics,
            "/routing/explain" => Self::Explain,
            _ => Self::Model(path.strip_prefix("/v1/models/").filter(|name| !name.is_empty())?),
        })
    }

    fn allows(&self, method: &Method) -> bool {
        match self {
            Self::Generate(_) => method == Method::POST,
            _ => method == Method::GET || method == Method::HEAD,
        }
    }

    fn allowed(&self) -> &'static str {
        match self {
            Self::Generate(_) => "POST",
            _ => "GET,HEAD",
        }
    }
}

/// Answers one request.
pub(crate) async fn handle<S: Service>(
    service: Arc<S>,
    limits: Limits,
    request: Request<Incoming>,
) -> Response<ResponseBody<S>> {
    let (head, body) = request.into_parts();
    let Some(route) = Route::of(head.uri.path()) else {
        let detail = format!("no route `{} {}`", head.method, head.uri.path());
        return reply::error(&ApiError::new(StatusCode::NOT_FOUND, detail));
    };
    if !route.allows(&head.method) {
        return wrong_method(&head.method, &route);
    }
    match route {
        Route::Generate(endpoint) => generate::answer(service, endpoint, limits, head, body).await,
        Route::Models => models(&service.models()),
        Route::Model(name) => model(&service.models(), &decoded(name)),
        Route::Health => reply::page(service.health()),
        Route::Live => reply::page(service.live()),
        Route::Metrics => reply::page(service.metrics()),
        Route::Explain => reply::page(service.explain(head.uri.query())),
    }
}

fn wrong_method<S: Service>(method: &Method, route: &Route<'_>) -> Response<ResponseBody<S>> {
    let detail = format!("method `{method}` cannot be used (allowed: {})", route.allowed());
    let mut response = reply::error(&ApiError::new(StatusCode::METHOD_NOT_ALLOWED, detail));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(route.allowed()));
    response
}

fn models<S: Service>(models: &[ListedModel]) -> Response<ResponseBody<S>> {
    let entries: Vec<_> = models.iter().map(entry).collect();
    let list = format!("{{\"object\":\"list\",\"data\":[{}]}}", entries.join(","));
    reply::json(StatusCode::OK, Bytes::from(list))
}

fn model<S: Service>(models: &[ListedModel], name: &str) -> Response<ResponseBody<S>> {
    match models.iter().find(|model| model.id == name) {
        Some(model) => reply::json(StatusCode::OK, Bytes::from(entry(model))),
        None => reply::error(&ApiError::no_model(name)),
    }
}

/// An entry, with its fields in the order of the published frontend.
fn entry(model: &ListedModel) -> String {
    let ListedModel { id, created_s, context_window } = model;
    let id = json!(id);
    format!(
        "{{\"id\":{id},\"object\":\"model\",\"created\":{created_s},\"owned_by\":\"nvidia\",\"context_window\":{context_window}}}"
    )
}

/// A part of a path with its `%XX` read; broken ones stay as they are.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        if let (b'%', Some(byte)) = (first, hex) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_name_may_have_a_slash_and_escapes() {
        assert_eq!(Route::of("/v1/models/org/name"), Some(Route::Model("org/name")));
        assert_eq!(decoded("org%2Fna%20me%"), "org/na me%");
        assert_eq!(Route::of("/v1/models/"), None);
        assert_eq!(Route::of("/v1"), None);
    }
}
