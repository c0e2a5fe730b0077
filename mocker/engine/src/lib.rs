//! One simulated LLM engine: continuous batching, paged KV cache, prefix cache and timing of vLLM and `SGLang`.
//!
//! ```text
//!   EngineArgs ──► Engine ──► rank 0: Scheduler ─► KV blocks        TimingModel
//!                    │        rank 1: Scheduler ─► KV blocks            │
//!   submit, abort ──►│                                                  │
//!                    └─ start(now, horizon): schedule ─► duration ◄─────┘    finish: complete ─► Step
//! ```
//!
//! Invariants:
//! - nothing here reads a clock, sleeps, does I/O, draws from an unnamed random stream or iterates a map in random order;
//! - time is whole nanoseconds ([`Nanos`]); floats live inside the timing models and are rounded once;
//! - requests carry block hashes, not tokens; a scheduler never looks at content;
//! - a run of many passes gives the same tokens at the same nanoseconds as stepping pass by pass.
//!
//! Not here: routing between engines, trace formats, reports, the wall clock.

pub mod args;
pub mod engine;
pub mod hash;
pub mod kv;
pub mod mtp;
pub mod pass;
pub mod reasoning;
pub mod request;
pub mod sglang;
pub mod time;
pub mod timing;
pub mod transfer;
pub mod vllm;

pub use args::{ArgsError, EngineArgs};
pub use engine::{Engine, EngineConfig, Horizon, Load, SchedulerConfig, Step, Ticket};
pub use hash::BlockHashes;
pub use mtp::Mtp;
pub use pass::{
    Admission, DecodeBatch, Detail, Emission, KvEvent, KvEvents, Lengths, Pass, PrefillBatch, Queued, Scheduler, Steady,
};
pub use reasoning::{OutputKind, Reasoning};
pub use request::{Rejection, Request, RequestId, Role};
pub use time::Nanos;
pub use timing::{Timing, TimingModel};
pub use transfer::{KvTransfer, TransferMode};
