//! Settings of one worker.

use std::path::PathBuf;
use std::sync::Arc;

use dynosim_engine::args::EngineType;
use dynosim_engine::timing::{Fixed, ProfileError};
use dynosim_engine::{EngineArgs, EngineConfig, KvTransfer, Reasoning, Role, Timing, TimingModel};
use dynosim_wire::card::ModelFiles;
use dynosim_wire::{EndpointId, Runtime};

use crate::replayed::ReplayedOutputs;
use crate::report::CacheTrace;
use crate::system::System;

/// Settings of one worker.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// How it takes part in the contract.
    pub runtime: Runtime,
    /// The endpoint that it serves.
    pub endpoint: EndpointId,
    /// The engine's settings, as given.
    pub args: EngineArgs,
    /// The engine. Made by [`engine_config`].
    pub engine: EngineConfig,
    /// The model's files.
    pub model: Arc<ModelFiles>,
    /// Name that clients use.
    pub model_name: String,
    /// What the user named as the model.
    pub source_path: String,
    /// Outputs that are repeated.
    pub replayed: Option<Arc<ReplayedOutputs>>,
    /// The process's metrics, and its system port if there is one.
    pub system: Arc<System>,
    /// Where decisions are logged.
    pub decision_log: Option<PathBuf>,
    /// Whether cache changes are logged.
    pub cache_trace: CacheTrace,
}

impl WorkerConfig {
    /// Part in the serving graph.
    pub fn role(&self) -> Role {
        self.args.worker_type
    }

    /// KV events go out: decode workers and workers without prefix caching have none.
    pub fn publishes_kv_events(&self) -> bool {
        self.args.enable_prefix_caching && self.role() != Role::Decode
    }

    /// The worker answers routers that missed KV events.
    pub fn answers_recovery(&self) -> bool {
        self.args.enable_local_indexer && self.publishes_kv_events()
    }

    /// The link to decode workers.
    pub fn transfer(&self) -> KvTransfer {
        self.args.kv_transfer()
    }

    /// Reasoning spans in outputs.
    pub fn reasoning(&self) -> Option<Reasoning> {
        self.args.reasoning
    }

    /// The engine that is simulated.
    pub fn engine_type(&self) -> EngineType {
        self.args.engine_type
    }
}

/// The engine of worker number `worker` of its process, as a live worker runs it: with KV events if anybody hears them,
/// and without any delay if the speed-up is 0 (offline, where time costs nothing, that means no scaling).
pub fn engine_config(args: &EngineArgs, worker: u64, timing: Timing, cache_trace: CacheTrace) -> EngineConfig {
    let published = args.enable_prefix_caching && args.worker_type != Role::Decode;
    let emit_kv_events = published || cache_trace == CacheTrace::On;
    EngineConfig { emit_kv_events, ..args.engine_config(worker, timing) }
}

/// How long passes of a live worker take.
pub fn live_timing(
    args: &EngineArgs,
    read: dynosim_engine::timing::profile::ReadFile<'_>,
) -> Result<Timing, ProfileError> {
    let timing = args.timing(read)?;
    if args.speedup_ratio > 0.0 {
        return Ok(timing);
    }
    Ok(Timing::new(TimingModel::Fixed(Fixed { prefill_ms: 0.0, decode_ms: 0.0 }), 1.0, 1.0))
}
