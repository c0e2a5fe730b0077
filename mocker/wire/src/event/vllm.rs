//! KV events as vLLM itself publishes them: PUB with a replay ROUTER.

pub(super) mod batch;
mod replay;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::EventError;
use super::zmtp::frame::{self, Kind};
use super::zmtp::publish::PubSocket;
use crate::time::unix_s;
use replay::{History, Replay};

/// A KV event in vLLM's form.
#[derive(Clone, Debug, PartialEq)]
pub enum VllmEvent {
    /// Blocks were stored.
    Stored {
        /// Sequence hashes.
        block_hashes: Vec<u64>,
        /// The block before the first.
        parent_block_hash: Option<u64>,
        /// Tokens of all blocks.
        token_ids: Vec<u32>,
        /// Tokens per block.
        block_size: u32,
    },
    /// Blocks were evicted.
    Removed {
        /// Sequence hashes.
        block_hashes: Vec<u64>,
    },
    /// The cache was dropped.
    Cleared,
}

/// One rank's publisher. Never blocks and never grows, as [`EventPublisher`](super::EventPublisher).
#[derive(Clone, Debug)]
pub struct VllmPublisher {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dp_rank: u32,
    socket: PubSocket,
    /// What a replay gives; also the counter of batches.
    history: Arc<Mutex<History>>,
    replay: Option<Replay>,
}

impl VllmPublisher {
    /// Binds the PUB port and, if given, the port of the replay ROUTER, on all interfaces or on `host`.
    pub async fn start(
        host: Option<IpAddr>,
        port: u16,
        replay_port: Option<u16>,
        dp_rank: u32,
    ) -> Result<Self, EventError> {
        let bind_error = |port: u16| {
            let address = format!("{}:{port}", host.unwrap_or(Ipv4Addr::UNSPECIFIED.into()));
            move |source| EventError::Bind { address, source }
        };
        let socket = PubSocket::bind(host, port, "").await.map_err(bind_error(port))?;
        let history = Arc::new(Mutex::new(History::default()));
        let replay = match replay_port {
            Some(port) => Some(Replay::bind(host, port, Arc::clone(&history)).await.map_err(bind_error(port))?),
            None => None,
        };
        Ok(Self { inner: Arc::new(Inner { dp_rank, socket, history, replay }) })
    }

    /// Publishes a batch.
    pub fn publish(&self, events: &[VllmEvent]) {
        let Inner { dp_rank, socket, history, replay } = &*self.inner;
        // Held while the batch is queued, so that subscribers get batches in the order of their numbers.
        let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
        if replay.is_none() && !socket.has_subscribers() {
            history.skip();
            return;
        }
        let payload = Bytes::from(batch::encode(unix_s(), events, *dp_rank));
        if socket.has_subscribers() {
            socket.send(&message(history.next(), &payload));
        }
        if replay.is_some() {
            history.push(payload);
        } else {
            history.skip();
        }
    }

    /// Port that the PUB socket is bound to.
    pub fn port(&self) -> u16 {
        self.inner.socket.address().port()
    }

    /// Port that the replay ROUTER is bound to.
    pub fn replay_port(&self) -> Option<u16> {
        self.inner.replay.as_ref().map(Replay::port)
    }

    /// Messages dropped because a subscriber did not read.
    pub fn dropped(&self) -> u64 {
        self.inner.socket.dropped()
    }
}

/// The frames of a batch: empty topic, number, payload.
fn message(sequence: u64, payload: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(payload.len() + 24);
    frame::put(Kind::Part, b"", &mut out);
    frame::put(Kind::Part, &sequence.to_be_bytes(), &mut out);
    frame::put(Kind::LastPart, payload, &mut out);
    out.into()
}
