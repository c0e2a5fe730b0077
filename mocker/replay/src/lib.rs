//! Discrete-event replay of a workload on simulated engines.
//!
//! ```text
//!   Workload ──arrivals──► Replay ──round robin──► Worker: Engine      Collector ──► Report
//!                            ▲                        │ steps              ▲
//!                            └──── (time, class, n) ◄─┴────────────────────┘
//! ```
//!
//! One event loop serves one worker and many. At each instant, steps that end come first, then arrivals and turns that
//! are due, then idle workers start their next step. Same workload, settings and seed give the same bytes.
//!
//! A run that was measured elsewhere, on a live server, becomes the same report through [`Measurement`].
//!
//! Memory grows with what is in flight and, for exact percentiles, by 8 bytes per pass and 32 per request.

mod collector;
mod digest;
mod events;
mod live;
mod measured;
mod parts;
mod records;
mod replay;
mod report;
mod samples;
mod sla;
mod table;

pub use measured::{Measured, Measurement};
pub use parts::{Outcome, replay};
pub use records::{Record, TerminalStatus};
pub use replay::{Admission, Progress, ReplayConfig, ReplayError};
pub use report::Report;
pub use sla::Sla;
pub use table::Table;
