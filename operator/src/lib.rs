//! Serving graphs on a cluster: from a graph to the objects that run it, and back to what it says of itself.
//!
//! ```text
//!   objects ──► dereference ──► Observed ─────────────────┐
//!                                                         ▼
//!   graph ────► validate ─────► ValidatedGraph ─────────► build ──► Built: Children, roll, restart, when to look again
//!                    └────────► warnings, or all errors               │
//!                                                                     ▼
//!   status ◄── what is there since ◄────────────── apply: only what differs
//! ```
//!
//! All but `apply` ([`cluster`]) need no client and never wait: what they are given is plain data, what they give is too. Equal
//! input gives equal output, byte for byte.
//!
//! - `validate` proves everything that `build` relies on; `build` has no way to fail. Admission calls the same `validate`.
//! - Names are DNS labels, and no two objects of a kind have the same.
//! - Workers belong to a *generation*, named by a hash of their pods. A change of any worker makes a new one of all, and
//!   [`roll`] decides from what is there how many pods each generation has next. Nothing else is remembered.
//! - Replicas rise in steps ([`stagger`]); [`build::Built::wait`] says when the next one is due.
//!
//! [`admission`] answers for graphs and adapters by the same `validate`, as pure; [`webhook`] is its server. [`run`] is the
//! program: leases, watches, ports.

pub mod admission;
pub mod arguments;
pub mod build;
pub mod check;
pub mod cluster;
pub mod config;
pub mod defaults;
pub mod dereference;
pub mod drift;
pub mod environment;
pub mod formats;
mod gpus;
pub mod health;
pub mod keys;
pub mod kinds;
pub mod metrics;
pub mod names;
pub mod problems;
pub mod restart;
pub mod roll;
pub mod run;
mod secrets;
pub mod stagger;
pub mod status;
pub mod trouble;
pub mod validate;
pub mod validated;
pub mod webhook;
pub mod worker_flags;

pub use build::{Built, Children, build};
pub use config::Config;
pub use dereference::{Objects, Observed, dereference};
pub use validate::{Valid, validate};
