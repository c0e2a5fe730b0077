//! The simulated engine on a wall clock, serving Dynamo's live contract.
//!
//! ```text
//!   frontend ──call──► request task ──command, stamped──► engine's thread: Pace over Engine
//!            ◄─frames─      ▲                                  │
//!                           └────────── progress ──────────────┤
//!   routers, planners ◄──────── KV events, load, passes ───────┤
//!   /metrics          ◄────────────── counters ────────────────┘
//! ```
//!
//! Invariants:
//! - what the engine decides depends on the arrival stamps alone, never on when a thread woke up ([`pace`]);
//! - output tokens are a function of request and position, so nothing grows while a client does not read;
//! - one thread per worker for its engine, one task per request, none per token;
//! - a request whose task ends early is aborted in the engine, wherever it is.
//!
//! Not here: what an engine computes, the wire's frames, flags.

mod blocks;
mod card;
pub mod config;
mod driver;
mod flight;
pub mod handoff;
mod metrics;
pub mod pace;
mod progress;
mod queue;
mod recovery;
mod replayed;
mod report;
mod serve;
mod system;
mod timer;
mod tokens;
mod worker;

pub use config::{WorkerConfig, engine_config, live_timing};
pub use driver::{Driver, EngineHandle, InFlight, MAX_REQUESTS, NewRequest, Report, TooManyRequests};
pub use flight::{Content, Flight, Flights, Serial};
pub use metrics::{Metrics, Several};
pub use pace::{Command, Due, Observe, Pace, Prompt, Stamped, Submission};
pub use progress::{End, Progress, Snapshot};
pub use replayed::{MAX_ROW_BYTES, ReplayedError, ReplayedOutputs};
pub use report::{CacheTrace, DecisionLog};
pub use system::{Readiness, System, SystemConfig, SystemError};
pub use tokens::{OutputTokens, Vocabulary};
pub use worker::{Worker, WorkerError};
