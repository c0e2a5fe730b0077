//! The HTTP server: routes, bodies, streams.

mod body;
mod generate;
mod prepare;
mod progress;
mod reply;
mod route;
pub(crate) mod server;
pub(crate) mod service;
mod stream;
mod unary;

pub(crate) use server::{Limits, Server};

#[cfg(test)]
mod tests;
