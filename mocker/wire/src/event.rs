//! The event plane: what workers publish about themselves.

mod envelope;
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod golden;
mod nats;
mod payload;
mod publisher;
mod queue;
mod recovery;
mod subscriber;
mod vllm;
mod zmtp;

pub use payload::RECOVERY;
pub use payload::{
    BlockData, CacheEvent, EventData, ForwardPassMetrics, KvMetrics, QueuedRequests, RecoveryRequest, RecoveryResponse,
    ResetScope, Residency, RouterEvent, ScheduledRequests, StorageTier, StoredBlocks,
};
pub use publisher::{EventError, EventPublisher};
pub use recovery::RecoveryLog;
pub use subscriber::{EventSubscriber, Received};
pub use vllm::{VllmEvent, VllmPublisher};

/// Topic of KV cache changes.
pub const KV_EVENTS: &str = "kv-events";
/// Topic of KV cache loads.
pub const KV_METRICS: &str = "kv_metrics";
/// Topic of what each pass did.
pub const FORWARD_PASS_METRICS: &str = "forward-pass-metrics";
/// Topic by which routers keep in step.
pub const ACTIVE_SEQUENCES_EVENTS: &str = "active_sequences_events";
