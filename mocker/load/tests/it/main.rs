//! The load generator against servers that run in the test: good ones with known timing, and bad ones.

mod failures;
mod limits;
mod prefixes;
mod raw;
mod reports;
mod server;
mod setup;
mod timing;
