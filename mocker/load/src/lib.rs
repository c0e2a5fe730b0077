//! Load generator: the workloads of an offline run against any `OpenAI` endpoint.
//!
//! ```text
//!   Workload ──► Schedule ──► Run ──► Requests (prompt text or ids) ──► Pool of connections ──► server
//!                   ▲          │                                             │
//!                   └─ ended ◄─┤◄── Answer ◄── Scan ◄── Events ◄── Body ◄────┘ time stamp at each read
//!                              └──► Measurement ──► Report
//! ```
//!
//! One thread, one event loop over non-blocking sockets: no task per request or token, one read buffer for all
//! connections. A request in flight holds what its prompt has left to send and about half a kilobyte. The loop
//! prepares the next request while it waits, never sends one early, and reports how late it sent.

mod answer;
mod clock;
mod config;
mod connection;
mod failure;
mod http;
pub mod limits;
mod models;
mod pool;
mod prompt;
mod requests;
mod run;
mod scan;
mod schedule;
mod sse;
mod stop;
mod target;
mod timer;

pub use config::{Answering, Endpoint, LoadConfig, PromptFormat};
pub use failure::FailureKind;
pub use models::first_model;
pub use run::{LoadError, LoadOutcome, load};
pub use stop::Stop;
pub use target::{Target, TargetError};
