//! Payloads of the event plane.

use serde::{Deserialize, Serialize};

/// Where a block is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageTier {
    /// GPU memory.
    #[default]
    Device,
    /// Host memory.
    HostPinned,
    /// Disk.
    Disk,
    /// Elsewhere.
    External,
}

/// Whose memory a block is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Residency {
    /// The worker's own.
    #[default]
    Worker,
    /// Anything else that a peer names.
    #[serde(other)]
    Other,
}

/// A stored block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockData {
    /// Sequence hash.
    pub block_hash: u64,
    /// Local hash.
    pub tokens_hash: u64,
    /// Always null here.
    #[serde(default)]
    pub mm_extra_info: Option<()>,
}

/// Blocks stored one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredBlocks {
    /// Sequence hash of the block before the first; none at the start of a sequence.
    #[serde(default)]
    pub parent_hash: Option<u64>,
    /// Index of the first block in its sequence.
    #[serde(default)]
    pub start_position: Option<u32>,
    /// The blocks.
    pub blocks: Vec<BlockData>,
}

/// What happened to the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventData {
    /// Blocks were stored.
    Stored(StoredBlocks),
    /// Blocks were evicted.
    Removed {
        /// Sequence hashes.
        block_hashes: Vec<u64>,
    },
    /// The cache was dropped.
    Cleared,
}

/// A change of one rank's cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheEvent {
    /// From 1, one more for each event of the rank.
    pub event_id: u64,
    /// What happened.
    pub data: EventData,
    /// Rank.
    #[serde(default)]
    pub dp_rank: u32,
}

/// A change of a worker's cache; a message on `kv-events` is a list of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterEvent {
    /// Worker.
    pub worker_id: u64,
    /// Where the blocks are.
    #[serde(default)]
    pub storage_tier: StorageTier,
    /// Whose memory that is.
    #[serde(default)]
    pub residency_domain: Residency,
    /// The change.
    pub event: CacheEvent,
}

impl RouterEvent {
    /// A change in the GPU memory of a worker.
    pub fn new(worker_id: u64, event: CacheEvent) -> Self {
        Self { worker_id, storage_tier: StorageTier::Device, residency_domain: Residency::Worker, event }
    }
}

/// Load of a rank's cache (`kv_metrics`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KvMetrics {
    /// Worker.
    pub worker_id: u64,
    /// Rank.
    pub dp_rank: u32,
    /// Blocks of decoding requests.
    pub active_decode_blocks: Option<u64>,
    /// Prompt tokens yet to be computed.
    pub active_prefill_tokens: Option<u64>,
    /// Blocks held by requests.
    pub kv_used_blocks: Option<u64>,
}

/// The batch of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScheduledRequests {
    /// Requests that compute prompt tokens.
    pub num_prefill_requests: u64,
    /// Sum of prompt tokens computed.
    pub sum_prefill_tokens: u64,
    /// Variance of prompt lengths.
    pub var_prefill_length: f64,
    /// Sum of KV tokens that were there before, of prefilling requests.
    pub sum_prefill_kv_tokens: u64,
    /// Requests that decode.
    pub num_decode_requests: u64,
    /// Sum of their sequence lengths.
    pub sum_decode_kv_tokens: u64,
    /// Variance of their sequence lengths.
    pub var_decode_kv_tokens: f64,
}

/// The queue at a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueuedRequests {
    /// Requests that wait for prefill.
    pub num_prefill_requests: u64,
    /// Sum of their prompt tokens.
    pub sum_prefill_tokens: u64,
    /// Variance of their prompt lengths.
    pub var_prefill_length: f64,
    /// Requests that wait for decode.
    pub num_decode_requests: u64,
    /// Sum of their sequence lengths.
    pub sum_decode_kv_tokens: u64,
    /// Variance of their sequence lengths.
    pub var_decode_kv_tokens: f64,
}

/// What a pass did (`forward-pass-metrics`); also sent once a second by an idle engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ForwardPassMetrics {
    /// 1.
    pub version: u32,
    /// Instance id as text.
    pub worker_id: String,
    /// Rank.
    pub dp_rank: u32,
    /// One more for each message of the rank.
    pub counter_id: u64,
    /// Duration of the pass in seconds; 0 when idle.
    pub wall_time: f64,
    /// The batch.
    pub scheduled_requests: ScheduledRequests,
    /// The queue.
    pub queued_requests: QueuedRequests,
}

/// What a receiver forgets before it applies a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetScope {
    /// All that it knows of the rank's cache.
    #[default]
    All,
    /// Anything else that a peer names.
    #[serde(other)]
    Other,
}

/// Asks a worker for events that were missed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecoveryRequest {
    /// Worker.
    pub worker_id: u64,
    /// Rank.
    pub dp_rank: u32,
    /// First event wanted; none: the whole cache.
    pub start_event_id: Option<u64>,
    /// Last event wanted. Workers as published give later ones too.
    pub end_event_id: Option<u64>,
    /// The asker knows an answer that says that a dump failed (ours never does).
    pub supports_tree_dump_failed: bool,
    /// [`RECOVERY`].
    pub kind: Option<String>,
}

/// The kind of a [`RecoveryRequest`].
pub const RECOVERY: &str = "recovery";

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecoveryResponse {
    /// All that is in the cache, as events, and the last event that it contains.
    TreeDump {
        /// Stored blocks, parents first.
        events: Vec<RouterEvent>,
        /// The last event that the dump contains.
        last_event_id: u64,
        /// What it replaces.
        #[serde(default)]
        reset_scope: ResetScope,
    },
    /// The events that were asked for.
    Events {
        /// In order.
        events: Vec<RouterEvent>,
        /// The newest event that there is.
        last_event_id: u64,
    },
    /// The start lies in the future.
    TooNew {
        /// What was asked for.
        requested_start: Option<u64>,
        /// What was asked for.
        requested_end: Option<u64>,
        /// The newest event.
        newest_available: u64,
    },
    /// The end lies before the start.
    InvalidRange {
        /// Start.
        start_id: u64,
        /// End.
        end_id: u64,
    },
    /// Anything else.
    Error(String),
}
