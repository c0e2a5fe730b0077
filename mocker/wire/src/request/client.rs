//! A frontend's side.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::CodecError;
use crate::discovery::EndpointRecord;
use crate::request::ServerError;
use crate::response::ResponseStream;
use crate::runtime::Runtime;

/// A request that did not reach its worker. Another worker may be tried unless said otherwise.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No connection.
    #[error("worker at {address}: {reason}")]
    Unreachable {
        /// Where.
        address: String,
        /// Why.
        reason: String,
    },
    /// The worker takes no more requests.
    #[error("worker at {address} refuses: {reason}")]
    Refused {
        /// Where.
        address: String,
        /// Its words.
        reason: String,
    },
    /// The worker took it but did not begin to answer in time.
    #[error("worker at {address} did not begin to answer within {seconds} s")]
    NoAnswer {
        /// Where.
        address: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The worker answered with an error before any output (prologue); another worker would say the same.
    #[error("{0}")]
    Failed(String),
    /// Larger than allowed; no worker would take it.
    #[error("request of {bytes} bytes, {limit} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Too many responses at once in this process.
    #[error("{limit} responses at once, more are not allowed")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// It could not be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Sends requests: a pool of connections to workers and a server that they answer to. Clones share it.
#[derive(Clone, Debug)]
pub struct RequestClient {}

impl RequestClient {
    /// Starts the server for answers; connects to NATS if the request plane is that.
    pub async fn start(_runtime: &Runtime) -> Result<Self, ServerError> {
        todo!()
    }

    /// Sends `request` to an instance; the stream begins once the worker has called back and said that it will answer.
    pub async fn call<T: DeserializeOwned + Send>(
        &self,
        _target: &EndpointRecord,
        _id: &str,
        _request: &(impl Serialize + Sync),
    ) -> Result<ResponseStream<T>, CallError> {
        todo!()
    }

    /// Stops the server for answers.
    pub async fn close(&self) {
        todo!()
    }
}
