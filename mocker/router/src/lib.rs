//! The KV router: which worker, and which of its data-parallel ranks, a request goes to.
//!
//! ```text
//!   KV events ───► index: blocks cached per rank ──┐
//!   requests ────► loads: open blocks, tokens ─────┼─► costs ─► choice ─► decision
//!                       ▲                          │              ▲
//!   ends ───────────────┘      queue ◄── all busy ─┘       seeded stream
//! ```
//!
//! Behaviour: Dynamo's router 1.6.1, measured call by call; its decision logs are replayed in `tests/golden`.
//!
//! Invariants:
//! - nothing here reads a clock, sleeps, does I/O or iterates a map in random order: offline and live runs call the same
//!   code, and pass the time in;
//! - equal calls give equal answers; what is left to chance comes from one seeded stream;
//! - looking up a prompt allocates nothing once buffers have grown.
//!
//! Not here: flags, files, sockets, hashing of prompts in hot paths, who tells workers and replicas.

mod approx;
mod choice;
mod config;
mod cost;
mod event;
pub mod hash;
mod index;
mod load;
mod lower;
mod policy;
mod queue;
mod request;
mod router;
mod session;
mod tree;
mod workers;

pub use choice::probabilities;
pub use config::{CachePolicy, ConfigError, PrefillLoadModel, QueuePolicy, RouterConfig, SharedCache};
pub use cost::Candidate;
pub use event::{Arrival, Batches, Event, EventError, Target, Tier};
pub use index::{HeldBlock, IndexSize};
pub use load::{LoadView, PrefillEstimator};
pub use policy::{Bucket, PolicyClass, PolicyConfig};
pub use queue::Waiting;
pub use request::{Admission, Decision, Matched, Reason, Request, RouteError, Submitted};
pub use router::{Explanation, Extras, Router};
pub use workers::{Lifecycle, WorkerSpec};
