//! The request plane: requests from a frontend to an endpoint of an instance.

mod client;
mod frame;
mod message;
mod nats;
mod registry;
mod server;
mod tcp;

pub use client::{CallError, RequestClient};
pub use server::{Call, Handler, RequestServer, ServerError};

/// Parsers of what peers send.
pub(crate) mod parsers {
    pub(crate) use super::frame::{decode, decode_answer};
    pub(crate) use super::message::parse;
}
