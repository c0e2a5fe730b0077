//! A worker's side.

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::codec::{Codec, CodecError};
use crate::discovery::EndpointRecord;
use crate::endpoint::EndpointId;
use crate::response::Responder;
use crate::runtime::Runtime;

/// A server that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The port.
    #[error("request plane on {address}: {source}")]
    Bind {
        /// Where.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// The NATS server.
    #[error("NATS {server}: {reason}")]
    Nats {
        /// Which.
        server: String,
        /// Why.
        reason: String,
    },
}

/// A request that has come in.
#[derive(Debug)]
pub struct Call {
    /// Its id (`x-request-id` or the control message's).
    pub id: String,
    /// Encoding of the body and of the answer.
    pub codec: Codec,
    /// The request.
    pub body: Bytes,
    /// Where the answer goes.
    pub responder: Responder,
}

impl Call {
    /// The request, read.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        self.codec.decode(&self.body)
    }
}

/// Serves an endpoint.
pub trait Handler: Send + Sync {
    /// Takes a request; must not block. Whatever takes time is spawned.
    fn handle(&self, call: Call);
}

impl<F: Fn(Call) + Send + Sync> Handler for F {
    fn handle(&self, call: Call) {
        self(call);
    }
}

/// Takes requests for the endpoints of one or several instances, over TCP or NATS.
#[derive(Clone, Debug)]
pub struct RequestServer {}

impl RequestServer {
    /// Listens, or connects to NATS.
    pub async fn start(_runtime: &Runtime) -> Result<Self, ServerError> {
        todo!()
    }

    /// Serves an endpoint of an instance from now on; what comes back belongs in discovery.
    pub async fn serve(
        &self,
        _endpoint: &EndpointId,
        _instance_id: u64,
        _handler: Arc<dyn Handler>,
    ) -> Result<EndpointRecord, ServerError> {
        todo!()
    }

    /// Refuses further requests for an endpoint of an instance (frontends try another worker); those that run go on.
    pub async fn remove(&self, _endpoint: &EndpointId, _instance_id: u64) {
        todo!()
    }

    /// Stops listening and closes all request connections; response streams that run go on.
    pub async fn close(&self) {
        todo!()
    }
}
