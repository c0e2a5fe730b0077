//! The live contract between processes: stores, planes, peers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod card_files;
mod discovery_etcd;
mod discovery_etcd_faults;
mod discovery_file;
mod discovery_file_faults;
mod discovery_kubernetes;
mod discovery_mem;
mod discovery_upstream;
mod events;
mod planes;
mod sample;
