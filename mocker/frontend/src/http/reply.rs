//! Responses.

use ::http::{HeaderValue, Response, StatusCode, header};
use bytes::Bytes;

use super::generate::retry_after;
use super::service::{Page, Service};
use super::stream::{ResponseBody, StreamBody};
use crate::openai::error::ApiError;

/// Names a request: the client's own name, or ours.
pub(crate) const REQUEST_ID: &str = "x-request-id";

/// A JSON object.
pub(crate) fn json<S: Service>(status: StatusCode, body: Bytes) -> Response<ResponseBody<S>> {
    whole(status, "application/json", body)
}

/// An error.
pub(crate) fn error<S: Service>(error: &ApiError) -> Response<ResponseBody<S>> {
    let mut response = json(error.status, error.body());
    if let Some((name, value)) = retry_after(error) {
        response.headers_mut().insert(name, value);
    }
    if error.status == StatusCode::REQUEST_TIMEOUT {
        // The rest of the body may still come, so the connection cannot be used again.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A page of the serving side.
pub(crate) fn page<S: Service>(page: Page) -> Response<ResponseBody<S>> {
    whole(page.status, page.content_type, page.body)
}

/// An answer as it comes.
pub(crate) fn stream<S: Service>(body: StreamBody<S>) -> Response<ResponseBody<S>> {
    let mut response = Response::new(ResponseBody::Stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn whole<S: Service>(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<ResponseBody<S>> {
    let mut response = Response::new(ResponseBody::Whole(Some(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
