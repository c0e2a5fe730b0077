//! The live contract between processes: stores, planes, peers.

mod discovery_file;
mod discovery_mem;
mod events;
mod planes;
mod sample;
