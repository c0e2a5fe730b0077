//! Receives events of one topic.

use crate::discovery::ChannelRecord;
use crate::event::EventError;
use crate::runtime::Runtime;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent it.
    pub publisher_id: u64,
    /// From 0, one more for each message of the publisher; a gap means that messages were lost.
    pub sequence: u64,
    /// Milliseconds since 1970.
    pub published_at: u64,
    /// The payload in msgpack.
    pub payload: Vec<u8>,
}

/// Receives the messages of one publisher; connects again when the connection breaks.
#[derive(Debug)]
pub struct EventSubscriber {}

impl EventSubscriber {
    /// Connects to the channel of a publisher.
    pub async fn connect(_runtime: &Runtime, _channel: &ChannelRecord) -> Result<Self, EventError> {
        todo!()
    }

    /// The next message; none once closed.
    pub async fn next(&mut self) -> Option<Received> {
        todo!()
    }
}
