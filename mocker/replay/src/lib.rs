//! Discrete-event replay of a workload on simulated engines.
//!
//! ```text
//!   Workload ──arrivals──► Replay ──turn, router──► Worker: Engine      Collector ──► Report
//!                            ▲                         │ steps              ▲
//!                            └───── (time, class, n) ◄─┴────────────────────┘
//! ```
//!
//! One event loop serves one worker and many, one pool and two. At each instant, steps that end come first, then KV that
//! arrives, then arrivals and turns that are due, then idle workers start their next step. Same workload, settings and
//! seed give the same bytes.
//!
//! A run that was measured elsewhere, on a live server, becomes the same report through [`Measurement`].
//!
//! Memory grows with what is in flight and, for exact percentiles, by 8 bytes per pass and 32 per request.

mod collector;
mod config;
mod digest;
mod dispatch;
mod events;
mod explain;
mod handoff;
mod kv;
mod live;
mod measured;
mod parts;
mod pools;
mod records;
mod replay;
mod report;
mod samples;
mod sla;
mod step;
mod table;
mod workers;

pub use config::{Admission, Fleet, KvRouting, Pool, Progress, ReplayConfig, ReplayError, Routing};
pub use measured::{Measured, Measurement};
pub use parts::{Outcome, replay};
pub use records::{Record, TerminalStatus, row_of_uuid};
pub use report::Report;
pub use sla::Sla;
pub use table::Table;
