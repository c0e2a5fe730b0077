//! The server over real connections, with a serving side that answers what it is told.

mod bad_bodies;
mod client;
mod fake;
mod malformed;
mod many_streams;
mod streaming;
mod whole;
