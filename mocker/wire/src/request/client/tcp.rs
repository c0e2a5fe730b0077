//! The request plane over TCP, a frontend's side.

use serde::Serialize;
use uuid::Uuid;

use crate::limits::{MAX_MESSAGE_BYTES, MAX_RESPONSE_STREAMS};
use crate::request::client::CallError;
use crate::request::client::pool::Pool;
use crate::request::frame;
use crate::request::message::Outgoing;
use crate::response::{Hub, Waiting};

/// Connections that are tried for one request: the first may have been closed while nobody used it.
const ATTEMPTS: usize = 2;

/// Headers of every request.
#[derive(Serialize)]
struct Headers<'a> {
    #[serde(rename = "request-id")]
    request_id: &'a str,
    #[serde(rename = "x-endpoint-path")]
    path: &'a str,
    #[serde(rename = "x-frontend-send-ts-ns")]
    sent_ns: String,
}

/// The frame of a request to `address`, `host:port/path`.
pub(crate) fn request(
    address: &str,
    outgoing: &Outgoing<'_>,
    request: &(impl Serialize + Sync),
) -> Result<Vec<u8>, CallError> {
    let (_, path) = split(address)?;
    let sent_ns = (crate::time::unix_s() * 1e9) as u64;
    let headers = Headers { request_id: outgoing.id, path, sent_ns: sent_ns.to_string() };
    let headers = serde_json::to_vec(&headers).map_err(crate::codec::CodecError::from)?;
    let mut buffer = Vec::with_capacity(2048);
    if !frame::begin(path, &headers, &mut buffer) {
        return Err(CallError::TooLarge { bytes: path.len() + headers.len(), limit: usize::from(u16::MAX) });
    }
    let start = buffer.len();
    outgoing.encode(request, &mut buffer)?;
    if !frame::seal(start, &mut buffer) {
        return Err(CallError::TooLarge { bytes: buffer.len() - start, limit: MAX_MESSAGE_BYTES });
    }
    Ok(buffer)
}

/// Sends a frame.
pub(crate) async fn send(
    hub: &Hub,
    pool: &Pool,
    address: &str,
    subject: Uuid,
    request: &[u8],
) -> Result<Waiting, CallError> {
    let (host, _) = split(address)?;
    let mut reason = String::new();
    for _ in 0..ATTEMPTS {
        let connection = pool.connection(host).await.map_err(|reason| unreachable(address, &*reason))?;
        let expected = hub.expect(subject, connection.number);
        let waiting = expected.ok_or(CallError::TooMany { limit: MAX_RESPONSE_STREAMS })?;
        match connection.send(subject, request).await {
            Ok(()) => return Ok(waiting),
            Err(lost) => reason = lost,
        }
    }
    Err(unreachable(address, &reason))
}

fn split(address: &str) -> Result<(&str, &str), CallError> {
    address.split_once('/').ok_or_else(|| unreachable(address, "its record names no path"))
}

fn unreachable(address: &str, reason: &str) -> CallError {
    CallError::Unreachable { address: address.to_owned(), reason: reason.to_owned() }
}
