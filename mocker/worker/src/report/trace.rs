//! `DYN_MOCKER_KV_CACHE_TRACE`: every block that is stored or evicted, as structured log lines.

use dynosim_engine::{Engine, KvEvent, Step};

use crate::flight::Flights;

/// Logs the cache changes of a step.
pub(crate) fn log(worker_id: u64, engine: &Engine, step: &Step, flights: &Flights) {
    for (rank, pass) in (0..).zip(&step.ranks) {
        let active_blocks = engine.load(rank).active_blocks;
        for item in &pass.events.items {
            match *item {
                KvEvent::Stored { parent, start, len, request, position } => {
                    let request = flights.get(rank, request).map(|flight| flight.serial.0);
                    let blocks = &pass.events.hashes[start as usize..(start + len) as usize];
                    tracing::info!(
                        target: "kv_cache_trace",
                        event = "allocation", worker_id, rank, request, ?parent, position, ?blocks, active_blocks
                    );
                }
                KvEvent::Removed { start, len } => {
                    let blocks = &pass.events.hashes[start as usize..(start + len) as usize];
                    tracing::info!(
                        target: "kv_cache_trace", event = "eviction", worker_id, rank, ?blocks, active_blocks
                    );
                }
                KvEvent::Cleared => {
                    tracing::info!(target: "kv_cache_trace", event = "clear", worker_id, rank, active_blocks);
                }
            }
        }
    }
}
