//! The vLLM V1 scheduler (0.33), also with TensorRT-LLM's guaranteed-no-evict admission.
//!
//! ```text
//!   submit ─► waiting ──admit: whole prompt fits──► running ──last token──► finished
//!               ▲  front                               │
//!               └────── preempted: blocks freed, ──────┘
//!                       computed tokens forgotten, outputs kept
//! ```
//!
//! A pass spends one token budget: first over the running requests in the order of their admission (a decode needs one
//! token, a prefill as many as are left), then over the waiting ones, whose head is admitted only if blocks for all its
//! tokens are there. Step logs of the real scheduler hold this module to its word: `tests/golden`.

mod admission;
mod check;
mod output;
mod queue;
mod roles;
mod scheduler;
mod sequence;
mod steady;

pub use scheduler::{Kind, Scheduled, Scheduler};

use crate::kv::Eviction;
use crate::mtp::Mtp;
use crate::request::Role;

/// Order of the waiting queue, and who is preempted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// First come, first served; preempted requests stand in front.
    #[default]
    Fcfs,
    /// Lowest (priority, arrival) first; the highest is preempted.
    Priority,
}

/// Who is preempted first come, first served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preemption {
    /// The newest running request, as vLLM V1 does.
    #[default]
    Lifo,
    /// The oldest decoding request; the newest while none decodes.
    Fifo,
}

/// What must be free before a waiting request is admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capacity {
    /// Blocks of the tokens known by then; more are taken as the output grows, preempting if need be (vLLM).
    #[default]
    AsNeeded,
    /// Blocks of prompt and whole output of it and of all running requests, so that none is ever preempted
    /// (TensorRT-LLM's `guaranteed_no_evict`).
    GuaranteedNoEvict,
}

/// Settings of one rank's scheduler.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is one switch of vLLM")]
pub struct Config {
    /// Blocks of the pool, vLLM's null block included (at least 2).
    pub num_gpu_blocks: u32,
    /// Tokens per block (at least 1).
    pub block_size: u32,
    /// Requests running at the same time; `None`: no limit.
    pub max_num_seqs: Option<u32>,
    /// Tokens computed per pass; `None`: no limit.
    pub max_num_batched_tokens: Option<u32>,
    /// Prompt and output of a request together; `None`: no limit.
    pub max_model_len: Option<u32>,
    /// Full blocks can be found by later requests.
    pub enable_prefix_caching: bool,
    /// A prompt may be computed over several passes.
    pub enable_chunked_prefill: bool,
    /// Most prompt tokens of one request per pass while others are there; 0: no limit.
    pub long_prefill_token_threshold: u32,
    /// Admission needs blocks of all known tokens, not only of the first chunk.
    pub scheduler_reserve_full_isl: bool,
    /// Share of the pool that must stay free when a request is admitted beside running ones, 0 to 1.
    pub watermark: f64,
    /// Queue order.
    pub policy: Policy,
    /// Limit of running requests for admission only; `None`: `max_num_seqs`.
    pub max_num_active_seqs: Option<u32>,
    /// Passes from one that carries prefill to the next, while others decode (1: no wait).
    pub prefill_schedule_interval: u32,
    /// The output of a pass is known only after the next one is scheduled.
    pub async_scheduling: bool,
    /// Victim of preemption.
    pub preemption: Preemption,
    /// Admission rule.
    pub capacity: Capacity,
    /// Eviction order of the prefix cache.
    pub eviction: Eviction,
    /// Part in the serving graph.
    pub role: Role,
    /// Speculative decoding.
    pub mtp: Option<Mtp>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            num_gpu_blocks: 16_384,
            block_size: 64,
            max_num_seqs: Some(256),
            max_num_batched_tokens: Some(8192),
            max_model_len: None,
            enable_prefix_caching: true,
            enable_chunked_prefill: true,
            long_prefill_token_threshold: 0,
            scheduler_reserve_full_isl: true,
            watermark: 0.0,
            policy: Policy::default(),
            max_num_active_seqs: None,
            prefill_schedule_interval: 1,
            async_scheduling: false,
            preemption: Preemption::default(),
            capacity: Capacity::default(),
            eviction: Eviction::default(),
            role: Role::default(),
            mtp: None,
        }
    }
}
