//! Tests of the crate from outside.

mod bad_input;
mod public_traces;
mod sessions;
mod sources;
