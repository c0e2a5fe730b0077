//! `/health` and `/live`.

use std::collections::BTreeSet;

use dynosim_wire::discovery::EndpointRecord;
use http::StatusCode;
use serde::Serialize;

use crate::http::service::Page;

#[derive(Serialize)]
struct Health<'a> {
    status: &'static str,
    endpoints: BTreeSet<String>,
    instances: &'a [EndpointRecord],
}

#[derive(Serialize)]
struct Live {
    status: &'static str,
    message: &'static str,
}

/// Who is there. A frontend without workers is healthy too, but not one that does not know yet who is there.
pub(super) fn health(instances: &[EndpointRecord], knows: bool) -> Page {
    let endpoints = instances.iter().map(|instance| format!("dyn://{}", instance.id())).collect();
    let (status, code) =
        if knows { ("healthy", StatusCode::OK) } else { ("starting", StatusCode::SERVICE_UNAVAILABLE) };
    Page { status: code, ..page(&Health { status, endpoints, instances }) }
}

/// The server answers.
pub(super) fn live() -> Page {
    page(&Live { status: "live", message: "Service is live" })
}

fn page(content: &impl Serialize) -> Page {
    let (status, body) = match serde_json::to_vec(content) {
        Ok(body) => (StatusCode::OK, body),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string().into_bytes()),
    };
    Page { status, content_type: "application/json", body: body.into() }
}
