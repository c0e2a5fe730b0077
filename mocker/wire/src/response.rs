//! The response plane: a worker dials the frontend, one connection per request, and streams its answer.

mod frame;
mod sink;
mod stream;

pub use sink::{Cancel, Responder, ResponseSink, SinkError};
pub use stream::{ResponseStream, StreamError};
