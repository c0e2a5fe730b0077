//! The request plane: requests from a frontend to an endpoint of an instance.

mod client;
mod frame;
mod nats;
mod server;

pub use client::{CallError, RequestClient};
pub use server::{Call, Handler, RequestServer, ServerError};
