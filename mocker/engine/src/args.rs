//! Engine arguments: the JSON that describes one engine, in the two published forms.
//!
//! ```text
//!   text ─► strict JSON ─► flat form (1.0–1.4)  ─┐
//!                          nested form (1.6)     ├─► fields ─► checks across fields ─► EngineArgs
//!                                                ┘
//! ```
//!
//! The nested form is the one with an `engine` or `dynamo` object. Every argument has a default, so `{}` is valid; a key
//! that is unknown, given twice, of the wrong type, out of range or without effect is an error that names it. Published
//! arguments that dynosim cannot honour yet are refused unless their value means "off".
//!
//! Source of names, defaults and ranges: `dynamo-mocker` 1.3.1 (flat) and 1.6.1 (nested); the scheduler options that
//! vLLM has and the mocker lacks carry vLLM's names.

mod build;
mod check;
pub mod defaults;
mod error;
mod fields;
mod input;
mod json;
mod objects;
mod read;
mod render;

pub use error::ArgsError;

use crate::kv::Eviction;
use crate::mtp::Mtp;
use crate::reasoning::Reasoning;
use crate::request::Role;
use crate::sglang::QueuePolicy;
use crate::timing::profile::ReadFile;
use crate::timing::{Fixed, Linear, ProfileError, Timing, TimingModel, load};
use crate::transfer::{KvTransfer, TransferMode};
use crate::vllm::{Policy, Preemption};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The engine that is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineType {
    /// vLLM V1.
    #[default]
    Vllm,
    /// `SGLang`.
    Sglang,
    /// TensorRT-LLM.
    Trtllm,
}

impl EngineType {
    /// As arguments and reports spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Trtllm => "trtllm",
        }
    }
}

/// The `sglang` object; its `page_size` is [`EngineArgs::block_size`].
#[derive(Clone, Debug, PartialEq)]
pub struct SglangArgs {
    /// Order of the waiting queue.
    pub schedule_policy: QueuePolicy,
    /// Prompt tokens per pass, at least 1.
    pub max_prefill_tokens: u32,
    /// Prompt tokens of one request per pass, a multiple of the page size.
    pub chunked_prefill_size: u32,
    /// Output tokens per request that admission reserves at most.
    pub clip_max_new_tokens: u32,
    /// Scales how much of the output admission reserves, at least 0.
    pub schedule_conservativeness: f64,
}

impl Default for SglangArgs {
    fn default() -> Self {
        Self {
            schedule_policy: QueuePolicy::default(),
            max_prefill_tokens: defaults::SGLANG_MAX_PREFILL_TOKENS,
            chunked_prefill_size: defaults::SGLANG_CHUNKED_PREFILL_SIZE,
            clip_max_new_tokens: defaults::SGLANG_CLIP_MAX_NEW_TOKENS,
            schedule_conservativeness: defaults::SGLANG_SCHEDULE_CONSERVATIVENESS,
        }
    }
}

/// Speculative decoding: `aic_nextn`, `aic_nextn_accept_rates`.
#[derive(Clone, Debug, PartialEq)]
pub struct MtpArgs {
    /// Drafts per decode step, 1 to 5.
    pub nextn: u32,
    /// Conditional accept rates, one per draft. Rates that were not given: [`crate::mtp::ACCEPT_RATES_DEFAULT`] if none
    /// were, else 0.
    pub accept_rates: Vec<f64>,
}

/// Where durations come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TimingSettings {
    /// `timing_model` `{"type": "polynomial"}`.
    #[default]
    Polynomial,
    /// `timing_model` `{"type": "fixed", "prefill_ms": …, "decode_ms": …}`.
    Fixed(Fixed),
    /// `timing_model` `{"type": "linear", "pass_ms": …, …}`.
    Linear(Linear),
    /// `planner_profile_data`.
    Profile(PathBuf),
}

/// All settings of one engine, resolved: what was not given has its default.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is one published switch")]
pub struct EngineArgs {
    /// `engine_type` (nested: `backend`).
    pub engine_type: EngineType,
    /// KV blocks per rank, at least 1.
    pub num_gpu_blocks: u32,
    /// Tokens per block (`SGLang`: per page), at least 1.
    pub block_size: u32,
    /// Requests running at the same time; `None`: no limit.
    pub max_num_seqs: Option<u32>,
    /// Tokens computed per pass; `None`: no limit. Not `SGLang`.
    pub max_num_batched_tokens: Option<u32>,
    /// Prompt and output of a request together; `None`: no limit.
    pub max_model_len: Option<u32>,
    /// Full blocks can be found by later requests.
    pub enable_prefix_caching: bool,
    /// A prompt may be computed over several passes.
    pub enable_chunked_prefill: bool,
    /// Divides all durations; 0: no scaling in simulated time, no delay in a live engine.
    pub speedup_ratio: f64,
    /// Divides decode durations once more.
    pub decode_speedup_ratio: f64,
    /// Data-parallel ranks, at least 1.
    pub dp_size: u32,
    /// GPUs per rank, at least 1; only counted, never simulated.
    pub tensor_parallel_size: u32,
    /// Seconds from start to ready.
    pub startup_time: Option<f64>,
    /// `worker_type`, or the older `is_prefill` / `is_decode`.
    pub worker_type: Role,
    /// Source of durations.
    pub timing: TimingSettings,
    /// Speculative decoding.
    pub mtp: Option<MtpArgs>,
    /// `aic_mtp_seed`, see [`EngineArgs::mtp_sampler`].
    pub mtp_seed: u64,
    /// Whom vLLM preempts first come, first served.
    pub preemption_mode: Preemption,
    /// Order in which cached blocks are evicted. Not `SGLang`.
    pub eviction_policy: Eviction,
    /// vLLM: order of the waiting queue.
    pub scheduling_policy: Policy,
    /// vLLM: most prompt tokens of one request per pass beside others; 0: no limit.
    pub long_prefill_token_threshold: u32,
    /// vLLM: admission needs blocks of all known tokens, not only of the first chunk.
    pub scheduler_reserve_full_isl: bool,
    /// vLLM: share of the pool that must stay free at admission, 0 to 1.
    pub watermark: f64,
    /// vLLM: passes from one that carries prefill to the next, at least 1.
    pub prefill_schedule_interval: u32,
    /// vLLM: the output of a pass is known only after the next one is scheduled.
    pub async_scheduling: bool,
    /// The `sglang` object.
    pub sglang: SglangArgs,
    /// KV cache changes are recorded.
    pub emit_kv_events: bool,
    /// KV bytes per token, for transfers.
    pub kv_bytes_per_token: Option<u64>,
    /// 10⁹ bytes per second between prefill and decode engines; `None` or 0: no delay.
    pub kv_transfer_bandwidth: Option<f64>,
    /// Which tokens a transfer carries.
    pub kv_transfer_timing_mode: TransferMode,
    /// Reasoning spans in the output.
    pub reasoning: Option<Reasoning>,
    /// Trace whose outputs a live engine repeats.
    pub response_replay_trace_path: Option<PathBuf>,
    /// Live: the worker answers queries about its KV events.
    pub enable_local_indexer: bool,
    /// Live: port of the prefill and decode rendezvous; rank r listens on port + r.
    pub bootstrap_port: Option<u16>,
    /// Live: how long a hand-off may take, at least 1 ms.
    pub handoff_session_timeout_ms: u64,
    /// Live: PUB port of KV events; rank r binds port + r.
    pub zmq_kv_events_port: Option<u16>,
    /// Live: ROUTER port that repeats KV events; rank r binds port + r.
    pub zmq_replay_port: Option<u16>,
    /// Replay: queue policy of the router.
    pub router_queue_policy: Option<String>,
    /// The flat names of the arguments that were given, those inside objects as `sglang.page_size`. A null that only
    /// says "nothing" does not count.
    pub given: BTreeSet<&'static str>,
}

impl EngineArgs {
    /// Reads either form from JSON text.
    pub fn from_json(text: &str) -> Result<Self, ArgsError> {
        read::from_value(&json::parse(text)?)
    }

    /// Reads either form from parsed JSON, in which duplicates can no longer be seen.
    pub fn from_value(value: &serde_json::Value) -> Result<Self, ArgsError> {
        read::from_value(value)
    }

    /// All settings that have an effect as one line of flat JSON with sorted keys; reads back as the same settings.
    pub fn to_json(&self) -> String {
        render::to_value(self).to_string()
    }

    /// Whether the user gave this argument (flat name), so that callers can refuse what has no effect in their mode.
    pub fn was_given(&self, argument: &str) -> bool {
        self.given.contains(argument)
    }

    /// The timing model with its speed-ups; reads a profile with `read` if there is one.
    pub fn timing(&self, read: ReadFile<'_>) -> Result<Timing, ProfileError> {
        let model = match &self.timing {
            TimingSettings::Polynomial => TimingModel::Polynomial,
            TimingSettings::Fixed(fixed) => TimingModel::Fixed(*fixed),
            TimingSettings::Linear(linear) => TimingModel::Linear(*linear),
            TimingSettings::Profile(path) => load(path, read)?,
        };
        Ok(Timing::new(model, self.speedup_ratio, self.decode_speedup_ratio))
    }

    /// The sampler of speculative decoding for one worker rank: the seed plus the rank, wrapping.
    pub fn mtp_sampler(&self, rank: u64) -> Option<Mtp> {
        let mtp = self.mtp.as_ref()?;
        Some(Mtp::new(mtp.nextn, &mtp.accept_rates, self.mtp_seed.wrapping_add(rank)))
    }

    /// The link over which a prefill engine hands KV on.
    pub fn kv_transfer(&self) -> KvTransfer {
        KvTransfer {
            bytes_per_token: self.kv_bytes_per_token,
            bandwidth_gb_s: self.kv_transfer_bandwidth,
            mode: self.kv_transfer_timing_mode,
        }
    }

    /// Tokens that fit into the KV cache of one rank.
    pub fn kv_capacity_tokens(&self) -> u64 {
        u64::from(self.num_gpu_blocks) * u64::from(self.block_size)
    }

    /// GPUs of the engine: tensor parallel size × data parallel size.
    pub fn gpus(&self) -> u64 {
        u64::from(self.tensor_parallel_size) * u64::from(self.dp_size)
    }
}

impl Default for EngineArgs {
    fn default() -> Self {
        Self {
            engine_type: EngineType::default(),
            num_gpu_blocks: defaults::NUM_GPU_BLOCKS,
            block_size: defaults::BLOCK_SIZE_VLLM,
            max_num_seqs: Some(defaults::MAX_NUM_SEQS),
            max_num_batched_tokens: Some(defaults::MAX_NUM_BATCHED_TOKENS),
            max_model_len: None,
            enable_prefix_caching: defaults::ENABLE_PREFIX_CACHING,
            enable_chunked_prefill: defaults::ENABLE_CHUNKED_PREFILL,
            speedup_ratio: defaults::SPEEDUP_RATIO,
            decode_speedup_ratio: defaults::DECODE_SPEEDUP_RATIO,
            dp_size: defaults::DP_SIZE,
            tensor_parallel_size: defaults::TENSOR_PARALLEL_SIZE,
            startup_time: None,
            worker_type: Role::default(),
            timing: TimingSettings::default(),
            mtp: None,
            mtp_seed: defaults::AIC_MTP_SEED,
            preemption_mode: Preemption::default(),
            eviction_policy: Eviction::default(),
            scheduling_policy: Policy::default(),
            long_prefill_token_threshold: defaults::LONG_PREFILL_TOKEN_THRESHOLD,
            scheduler_reserve_full_isl: defaults::SCHEDULER_RESERVE_FULL_ISL,
            watermark: defaults::WATERMARK,
            prefill_schedule_interval: defaults::PREFILL_SCHEDULE_INTERVAL,
            async_scheduling: defaults::ASYNC_SCHEDULING,
            sglang: SglangArgs::default(),
            emit_kv_events: defaults::EMIT_KV_EVENTS,
            kv_bytes_per_token: None,
            kv_transfer_bandwidth: None,
            kv_transfer_timing_mode: TransferMode::default(),
            reasoning: None,
            response_replay_trace_path: None,
            enable_local_indexer: defaults::ENABLE_LOCAL_INDEXER,
            bootstrap_port: None,
            handoff_session_timeout_ms: defaults::HANDOFF_SESSION_TIMEOUT_MS,
            zmq_kv_events_port: None,
            zmq_replay_port: None,
            router_queue_policy: None,
            given: BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests;
