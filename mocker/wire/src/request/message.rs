//! The payload of a request, the same over TCP and NATS: a two-part frame of a control message and the body.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::codec::{Codec, CodecError};
use crate::request::server::Call;
use crate::response::{FrameError, Responder, frame};

/// The way that answers come.
const TRANSPORT: &str = "tcp_server";

/// Who asks, and how it wants its answer.
#[derive(Debug, Serialize, Deserialize)]
struct Control<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    request_type: Cow<'a, str>,
    #[serde(borrow, default)]
    response_type: Cow<'a, str>,
    #[serde(default)]
    payload_codec: Codec,
    #[serde(borrow)]
    connection_info: Connection<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Connection<'a> {
    #[serde(borrow)]
    transport: Cow<'a, str>,
    /// A [`CallBackTo`] as JSON text.
    #[serde(borrow)]
    info: Cow<'a, str>,
}

#[derive(Debug, Serialize, Deserialize)]
struct CallBackTo<'a> {
    #[serde(borrow)]
    address: Cow<'a, str>,
    #[serde(borrow)]
    subject: Cow<'a, str>,
    #[serde(borrow)]
    context: Cow<'a, str>,
    #[serde(borrow)]
    stream_type: Cow<'a, str>,
}

/// Headers of a request that matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Headers<'a> {
    #[serde(borrow, rename = "x-request-id")]
    x_request_id: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "request-id")]
    request_id: Option<Cow<'a, str>>,
}

/// A request that cannot be taken; the text is told to who asks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MessageError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("headers: {0}")]
    Headers(serde_json::Error),
    #[error("control message: {0}")]
    Control(serde_json::Error),
    #[error("{field} `{found}` (allowed: {allowed})")]
    Unknown { field: &'static str, found: String, allowed: &'static str },
}

/// A request to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) id: &'a str,
    pub(crate) codec: Codec,
    /// Where the answer goes.
    pub(crate) address: &'a str,
    /// Which request it answers.
    pub(crate) subject: &'a str,
}

impl Outgoing<'_> {
    /// Appends the payload that carries `body`.
    pub(crate) fn encode(&self, body: &impl Serialize, buffer: &mut Vec<u8>) -> Result<(), CodecError> {
        let start = buffer.len();
        buffer.extend_from_slice(&frame::prefix(0, 0));
        Codec::Json.encode_into(&self.control()?, buffer)?;
        let header = buffer.len() - start - frame::PREFIX_BYTES;
        self.codec.encode_into(body, buffer)?;
        let body = buffer.len() - start - frame::PREFIX_BYTES - header;
        buffer[start..start + frame::PREFIX_BYTES].copy_from_slice(&frame::prefix(header, body));
        Ok(())
    }

    fn control(&self) -> Result<Control<'_>, CodecError> {
        let Self { id, codec, address, subject } = *self;
        let info = serde_json::to_string(&CallBackTo {
            address: address.into(),
            subject: subject.into(),
            context: id.into(),
            stream_type: "response".into(),
        })?;
        Ok(Control {
            id: id.into(),
            request_type: "single_in".into(),
            response_type: "many_out".into(),
            payload_codec: codec,
            connection_info: Connection { transport: TRANSPORT.into(), info: info.into() },
        })
    }
}

/// Reads a request; the body stays where it is.
pub(crate) fn parse(headers: &[u8], payload: &Bytes) -> Result<Call, MessageError> {
    let (control, body) = parts(payload)?;
    let control: Control<'_> = serde_json::from_slice(&payload[control]).map_err(MessageError::Control)?;
    let Control { id, request_type, response_type, payload_codec, connection_info } = control;
    known("request_type", &request_type, "single_in")?;
    known("response_type", &response_type, "many_out")?;
    known("transport", &connection_info.transport, TRANSPORT)?;
    let info: CallBackTo<'_> = serde_json::from_str(&connection_info.info).map_err(MessageError::Control)?;
    known("stream_type", &info.stream_type, "response")?;
    let responder =
        Responder { address: info.address.into_owned(), subject: info.subject.into_owned(), codec: payload_codec };
    let id = header_id(headers)?.unwrap_or_else(|| id.into_owned());
    Ok(Call { id, codec: payload_codec, body: payload.slice(body), responder })
}

/// Where the two parts of a whole payload are.
fn parts(payload: &[u8]) -> Result<(Range<usize>, Range<usize>), FrameError> {
    let short = |needed| FrameError::Length { bytes: payload.len(), needed };
    let (frame, used) = frame::decode(payload, frame::MESSAGE)?.ok_or(short(frame::announced(payload)))?;
    if used != payload.len() {
        return Err(short(used as u64));
    }
    let body = used - frame.body.len();
    Ok((frame::PREFIX_BYTES..body, body..used))
}

fn header_id(headers: &[u8]) -> Result<Option<String>, MessageError> {
    if headers.is_empty() {
        return Ok(None);
    }
    let headers: Headers<'_> = serde_json::from_slice(headers).map_err(MessageError::Headers)?;
    Ok(headers.x_request_id.or(headers.request_id).map(Cow::into_owned))
}

/// Fields of old peers may be empty.
fn known(field: &'static str, found: &str, allowed: &'static str) -> Result<(), MessageError> {
    if found.is_empty() || found == allowed {
        return Ok(());
    }
    Err(MessageError::Unknown { field, found: found.to_owned(), allowed })
}
