//! `/routing/explain`: why requests went where they went.

use http::StatusCode;
use serde_json::{Value, json};

use crate::http::service::Page;
use crate::kv::Kv;

/// The choices of the request that the query names (`request=ID`), or the requests that can be asked for.
pub(super) fn explain(kv: Option<&Kv>, query: Option<&str>) -> Page {
    let Some(kv) = kv else {
        return refused(StatusCode::NOT_FOUND, "choices are explained with --router-mode kv only");
    };
    let query = query.filter(|query| !query.is_empty());
    let Some(name) = query.map(|query| query.strip_prefix("request=")) else {
        return page(StatusCode::OK, &json!({"requests": kv.recent.requests()}));
    };
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return refused(
            StatusCode::BAD_REQUEST,
            "query: cannot be used (allowed: request=ID, the `x-request-id` of an answer)",
        );
    };
    let choices = kv.recent.of(name);
    if choices.is_empty() {
        return refused(StatusCode::NOT_FOUND, &format!("no choice for request `{name}` is remembered"));
    }
    page(StatusCode::OK, &json!({"request": name, "choices": choices}))
}

fn refused(status: StatusCode, message: &str) -> Page {
    page(status, &json!({"error": {"message": message, "code": status.as_u16()}}))
}

fn page(status: StatusCode, content: &Value) -> Page {
    Page { status, content_type: "application/json", body: content.to_string().into() }
}
