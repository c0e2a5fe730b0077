//! Bodies of requests.

use std::time::Duration;

use ::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::openai::error::ApiError;

/// Largest body in bytes (`DYN_HTTP_BODY_LIMIT_MB`, 45 as published).
pub(crate) const MAX_BODY_BYTES: usize = 45 * 1024 * 1024;
/// Time for a body to come.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(30);

/// Reads a JSON body of at most `limit` bytes.
pub(crate) async fn read(headers: &HeaderMap, body: Incoming, limit: usize, time: Duration) -> Result<Bytes, ApiError> {
    if !is_json(headers) {
        let detail = "header content-type: must say `application/json`";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let late = |_| ApiError::new(StatusCode::REQUEST_TIMEOUT, format!("body: not there after {time:?}"));
    tokio::time::timeout(time, collect(body, limit)).await.map_err(late)?
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json")
}

async fn collect(mut body: Incoming, limit: usize) -> Result<Bytes, ApiError> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| ApiError::invalid(format!("body: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + all.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        // Most bodies come in one piece, which need not be copied.
        if first.is_empty() && all.is_empty() {
            first = data;
            continue;
        }
        all.extend_from_slice(&std::mem::take(&mut first));
        all.extend_from_slice(&data);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

fn too_large(limit: usize) -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("body: too large (allowed: at most {limit} bytes)"))
}
