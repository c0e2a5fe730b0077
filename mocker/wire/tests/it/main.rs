//! The live contract between processes: stores, planes, peers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod discovery_file;
mod discovery_mem;
mod events;
mod planes;
mod sample;
