//! The response plane: a worker dials the frontend, one connection per request, and streams its answer.
//!
//! ```text
//! worker ── hello {subject} ── prologue {error} ── body ── body ── … ── final body ── "sentinel" ──► frontend
//!        ◄── "stop" or "kill", if the client goes ──
//! ```
//!
//! The frontend closes first when it has all: the side that closes first keeps the port pair for a minute, and only the
//! worker's side would run out of them.

mod buffer;
mod control;
pub(crate) mod frame;
pub(crate) mod header;
mod hub;
mod item;
mod sink;
mod stream;
mod tokens;

pub use frame::FrameError;
pub(crate) use hub::{Hub, Lost, Waiting, listen, next_connection};
pub(crate) use item::Wrapping;
pub use sink::{Cancel, Responder, ResponseSink, SinkError};
pub use stream::{ResponseStream, StreamError};
