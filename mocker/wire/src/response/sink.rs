//! A worker's side.

use serde::Serialize;

use crate::codec::CodecError;

/// How a frontend, or the loss of it, ends a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// It wants no more output; what there is may still be sent (`stop`).
    Stop,
    /// It wants nothing more (`kill`), or the connection is gone.
    Kill,
}

/// A response that cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The connection.
    #[error("response to {address}: {source}")]
    Connection {
        /// Where.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// The payload.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// The way back to who sent a request. Dropped without use, it tells the frontend nothing: refuse or open.
#[derive(Debug)]
pub struct Responder {}

impl Responder {
    /// Dials the frontend and says that an answer follows.
    pub async fn open(self) -> Result<ResponseSink, SinkError> {
        todo!()
    }

    /// Dials the frontend and says that there is no answer, and why.
    pub async fn refuse(self, _reason: &str) -> Result<(), SinkError> {
        todo!()
    }
}

/// An answer in the making. Frames are gathered by `push` and sent by `flush`, so one write carries all that is there.
/// Dropped without `finish`, it breaks the stream: the frontend sees that the worker died.
#[derive(Debug)]
pub struct ResponseSink {}

impl ResponseSink {
    /// Adds one value, wrapped as `{"data": {"data": value}, "complete_final": false}` for an LLM endpoint.
    pub fn push(&mut self, _value: &impl Serialize) -> Result<(), SinkError> {
        todo!()
    }

    /// Adds one value as `{"data": value, "complete_final": false}`, as other endpoints answer.
    pub fn push_plain(&mut self, _value: &impl Serialize) -> Result<(), SinkError> {
        todo!()
    }

    /// Adds one output of new tokens, nothing else set: the same bytes as `push` of such an `EngineOutput`, but cheap.
    pub fn push_tokens(&mut self, _tokens: &[u32]) {
        todo!()
    }

    /// Sends what was added. Waits while the frontend does not read.
    pub async fn flush(&mut self) -> Result<(), SinkError> {
        todo!()
    }

    /// Waits until the frontend cancels or is gone. Safe to use in `select!` beside other work, between calls.
    pub async fn cancelled(&mut self) -> Cancel {
        todo!()
    }

    /// Says that the answer is complete, and closes.
    pub async fn finish(self) -> Result<(), SinkError> {
        todo!()
    }
}
