//! Publishes events of one topic.

use serde::Serialize;

use crate::codec::CodecError;
use crate::discovery::{ChannelRecord, Scope};
use crate::runtime::Runtime;

/// A publisher or subscriber that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// A socket.
    #[error("event socket on {address}: {source}")]
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
    /// The payload.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Publishes events of one topic, over ZMQ or NATS. Never blocks and never grows: a subscriber that does not read loses
/// the oldest messages, which are counted. Usable from any thread.
#[derive(Clone, Debug)]
pub struct EventPublisher {}

impl EventPublisher {
    /// Binds a socket, or connects to NATS. The publisher gets a random id of at most 53 bits.
    pub async fn start(_runtime: &Runtime, _scope: Scope, _topic: &str) -> Result<Self, EventError> {
        todo!()
    }

    /// Its record for discovery.
    pub fn record(&self) -> ChannelRecord {
        todo!()
    }

    /// Its id.
    pub fn publisher_id(&self) -> u64 {
        todo!()
    }

    /// Sends one payload (as msgpack in the envelope) to all subscribers.
    pub fn publish(&self, _payload: &impl Serialize) -> Result<(), EventError> {
        todo!()
    }

    /// Messages dropped because a subscriber did not read.
    pub fn dropped(&self) -> u64 {
        todo!()
    }
}
