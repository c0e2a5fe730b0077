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
