//! How full each rank's KV cache is, for routers: on change, not more often than once a millisecond.

use dynosim_engine::Nanos;
use dynosim_wire::event::{EventPublisher, KvMetrics};

/// Shortest time between two messages of a rank (as published).
const DEBOUNCE: Nanos = Nanos(1_000_000);

/// Publishes the load of one rank.
#[derive(Debug)]
pub(crate) struct LoadReport {
    worker_id: u64,
    rank: u32,
    publisher: EventPublisher,
    told: Option<u32>,
    /// When the next message may be sent.
    quiet_until: Nanos,
}

impl LoadReport {
    pub(crate) fn new(worker_id: u64, rank: u32, publisher: EventPublisher) -> Self {
        Self { worker_id, rank, publisher, told: None, quiet_until: Nanos::ZERO }
    }

    /// Tells the load if it has changed; what comes back is when to ask again, if it may not be told yet.
    pub(crate) fn settle(&mut self, now: Nanos, active_blocks: u32) -> Option<Nanos> {
        if self.told == Some(active_blocks) {
            return None;
        }
        if now < self.quiet_until {
            return Some(self.quiet_until);
        }
        self.told = Some(active_blocks);
        self.quiet_until = now + DEBOUNCE;
        let load = KvMetrics {
            worker_id: self.worker_id,
            dp_rank: self.rank,
            kv_used_blocks: Some(active_blocks.into()),
            ..KvMetrics::default()
        };
        if let Err(error) = self.publisher.publish(&load) {
            tracing::warn!(rank = self.rank, %error, "the KV load was not published");
        }
        None
    }
}
