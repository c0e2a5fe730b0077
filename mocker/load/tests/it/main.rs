//! The load generator against servers that run in the test: good ones with known timing, and bad ones.
#![allow(clippy::unwrap_used, reason = "tests fail by panics, in their helpers too")]
#![allow(clippy::float_cmp, reason = "counts are exact in floats")]

mod failures;
mod graphs;
mod limits;
mod prefixes;
mod raw;
mod reports;
mod server;
mod setup;
mod timing;
