//! KV events as vLLM itself publishes them: PUB with a replay ROUTER.

use std::net::IpAddr;

use crate::event::EventError;

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

/// One rank's publisher.
#[derive(Clone, Debug)]
pub struct VllmPublisher {}

impl VllmPublisher {
    /// Binds the PUB port and, if given, the port of the replay ROUTER, on all interfaces or on `host`.
    pub async fn start(
        _host: Option<IpAddr>,
        _port: u16,
        _replay_port: Option<u16>,
        _dp_rank: u32,
    ) -> Result<Self, EventError> {
        todo!()
    }

    /// Publishes a batch.
    pub fn publish(&self, _events: &[VllmEvent]) {
        todo!()
    }

    /// Messages dropped because a subscriber did not read.
    pub fn dropped(&self) -> u64 {
        todo!()
    }
}
