//! The frontend before workers that are told what to do, and before the published ones.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cache;
mod client;
mod disaggregated;
mod fake;
mod fleet;
mod kv;
mod kv_pools;
mod migration;
mod published;
mod routing;
mod streams;
