//! Publishes events of one topic.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use super::envelope::Envelope;
use super::nats::NatsSender;
use super::zmtp::publish::PubSocket;
use crate::codec::{Codec, CodecError};
use crate::discovery::{ChannelRecord, ChannelTransport, Scope};
use crate::limits::MAX_ZMQ_FRAME_BYTES;
use crate::runtime::{EventPlane, Runtime, listen_and_advertise};
use crate::time::unix_ms;

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
    /// The address of a publisher.
    #[error("event channel `{0}` cannot be reached (allowed: tcp://HOST:PORT)")]
    Address(String),
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
    /// The payload is too large.
    #[error("event payload of {bytes} bytes, {MAX_PAYLOAD_BYTES} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
}

/// Largest payload: with its envelope it must fit into what subscribers accept.
const MAX_PAYLOAD_BYTES: usize = MAX_ZMQ_FRAME_BYTES - 64 * 1024;
/// Bits of a publisher's id: other languages read it as a float.
const ID_BITS: u32 = 53;
/// Room for payloads that a publisher keeps.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Publishes events of one topic, over ZMQ or NATS. Never blocks and never grows: a subscriber that does not read loses
/// the oldest messages, which are counted. Usable from any thread.
#[derive(Clone, Debug)]
pub struct EventPublisher {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    record: ChannelRecord,
    way: Way,
    state: Mutex<State>,
}

#[derive(Debug)]
enum Way {
    Zmq(PubSocket),
    Nats(NatsSender),
}

#[derive(Debug, Default)]
struct State {
    /// Of the next message.
    sequence: u64,
    payload: Vec<u8>,
}

impl EventPublisher {
    /// Binds a socket, or connects to NATS. The publisher gets a random id of at most 53 bits.
    pub async fn start(runtime: &Runtime, scope: Scope, topic: &str) -> Result<Self, EventError> {
        let (way, transport) = match &runtime.event_plane {
            EventPlane::Zmq => {
                let (host, advertised) = listen_and_advertise(runtime.event_host, runtime.host);
                let socket = PubSocket::bind(host, 0, topic).await.map_err(|source| EventError::Bind {
                    address: host.map_or_else(|| "0.0.0.0".to_owned(), |host| host.to_string()),
                    source,
                })?;
                let endpoint = format!("tcp://{}", std::net::SocketAddr::new(advertised, socket.address().port()));
                (Way::Zmq(socket), ChannelTransport::Zmq { endpoint })
            }
            EventPlane::Nats(server) => {
                let subject_prefix = scope.path().replace('/', ".");
                let sender = NatsSender::connect(server, format!("{subject_prefix}.{topic}")).await?;
                (Way::Nats(sender), ChannelTransport::Nats { subject_prefix })
            }
        };
        let record = ChannelRecord { scope, topic: topic.to_owned(), instance_id: random_id(), transport };
        Ok(Self { inner: Arc::new(Inner { record, way, state: Mutex::default() }) })
    }

    /// Its record for discovery.
    pub fn record(&self) -> ChannelRecord {
        self.inner.record.clone()
    }

    /// Its id.
    pub fn publisher_id(&self) -> u64 {
        self.inner.record.instance_id
    }

    /// Sends one payload (as msgpack in the envelope) to all subscribers.
    pub fn publish(&self, payload: &impl Serialize) -> Result<(), EventError> {
        let Inner { record, way, state } = &*self.inner;
        // Held while the message is queued, so that subscribers get messages in the order of their numbers.
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Way::Zmq(socket) = way
            && !socket.has_subscribers()
        {
            state.sequence += 1;
            return Ok(());
        }
        state.payload.clear();
        state.payload.shrink_to(SCRATCH_BYTES);
        Codec::MessagePack.encode_into(payload, &mut state.payload)?;
        if state.payload.len() > MAX_PAYLOAD_BYTES {
            return Err(EventError::TooLarge { bytes: state.payload.len() });
        }
        let envelope = Envelope {
            publisher_id: record.instance_id,
            sequence: state.sequence,
            published_at: unix_ms(),
            topic: &record.topic,
            payload: &state.payload,
        };
        match way {
            Way::Zmq(socket) => socket.send(&envelope.to_frames()),
            Way::Nats(sender) => sender.send(envelope.to_bytes()),
        }
        state.sequence += 1;
        Ok(())
    }

    /// Connected subscribers; over NATS nobody knows them.
    pub fn subscribers(&self) -> Option<usize> {
        match &self.inner.way {
            Way::Zmq(socket) => Some(socket.subscribers()),
            Way::Nats(_) => None,
        }
    }

    /// Messages dropped because a subscriber did not read.
    pub fn dropped(&self) -> u64 {
        match &self.inner.way {
            Way::Zmq(socket) => socket.dropped(),
            Way::Nats(sender) => sender.dropped(),
        }
    }
}

fn random_id() -> u64 {
    // The upper bits of a version-4 UUID's lower half say its variant; those below are random.
    uuid::Uuid::new_v4().as_u128() as u64 & ((1 << ID_BITS) - 1)
}
