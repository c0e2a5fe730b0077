//! What reads from and writes to a cluster.
//!
//! ```text
//!   watches ──► World (what is known, as text) ──► keys of graphs ──► Queue ──► reconcile, one at a time for each graph
//!                 ▲                                                              dereference ─► validate ─► build
//!                 └── answers to writes ◄── apply (only what differs), status ◄──┘
//! ```
//!
//! All decisions are taken from what is there: nothing has to be remembered over a restart. An answer to a write goes into the
//! [`World`](world::World) at once, so that the next decision never comes from before the last one's effect.

pub mod api;
pub mod apply;
pub mod events;
pub mod kept;
pub mod lease;
pub mod queue;
pub mod reconcile;
pub mod scope;
pub mod watch;
pub mod world;
mod write_back;
