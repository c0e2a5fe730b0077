//! The scheduler and radix cache of `SGLang` (semantics of 0.5.23).
//!
//! ```text
//!   Scheduler ─┬─ Order    order of the waiting queue (fcfs, lpm, dfs-weight)
//!              ├─ Adder    budgets of a prefill batch
//!              ├─ Ratio    reserve for future output
//!              └─ Kv ─┬─ Tree ─ Leaves   pages by chain hash, eviction order
//!                     └─ Pool            free pages, as a count
//! ```
//!
//! Invariants:
//! - every page is free, in the tree, or held by exactly one request;
//! - a request that is admitted keeps the path to its deepest cached page locked;
//! - a pass is prefill or decode, never both (`SGLang` without mixed chunks).
//!
//! Not here: overlap scheduling, host offload, speculation, priorities.

mod adder;
mod admission;
mod capacity;
mod decode;
mod disagg;
mod inspect;
mod kv;
mod leaves;
mod pages;
mod policy;
mod ratio;
mod scheduler;
mod slot;
mod steady;
#[cfg(test)]
mod tests;
mod tree;

pub use leaves::EvictionPolicy;
pub use pages::Pool;
pub use policy::QueuePolicy;
pub use ratio::Ratio;
pub use scheduler::Scheduler;
pub use tree::{Insert, Match, NodeId, ROOT, SplitAge, Tree};

use crate::request::Role;

/// Settings of one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Tokens per page, at least 1. Hashes of requests name pages of this size.
    pub page_size: u32,
    /// KV slots in tokens; cut to whole pages.
    pub capacity_tokens: u64,
    /// Off (`--disable-radix-cache`): nothing is shared between requests.
    pub radix_cache: bool,
    /// Order of the waiting queue. Without radix cache always first come, first served.
    pub policy: QueuePolicy,
    /// Most requests that run or hold a row; none: unbounded.
    pub max_running_requests: Option<u32>,
    /// Prompt tokens of one prefill batch (a single larger prompt is let through without chunking).
    pub max_prefill_tokens: u32,
    /// Prompt tokens of one batch after which a prompt is cut, at least one page; none: prompts are never cut.
    pub chunked_prefill_size: Option<u32>,
    /// Most output tokens reserved for one request.
    pub clip_max_new_tokens: u32,
    /// Scales the reserve for future output.
    pub schedule_conservativeness: f64,
    /// Part of the work that is done here.
    pub role: Role,
    /// Prompt and output of a request never exceed this many tokens.
    pub max_model_len: Option<u32>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            page_size: 1,
            capacity_tokens: 16_384,
            radix_cache: true,
            policy: QueuePolicy::Fcfs,
            max_running_requests: Some(256),
            max_prefill_tokens: 16_384,
            chunked_prefill_size: Some(8192),
            clip_max_new_tokens: 4096,
            schedule_conservativeness: 1.0,
            role: Role::Aggregated,
            max_model_len: None,
        }
    }
}

/// What the last pass was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nothing ran.
    #[default]
    Idle,
    /// Prompts.
    Prefill,
    /// One token for each running request.
    Decode,
}
