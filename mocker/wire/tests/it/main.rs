//! The live contract between processes: stores, planes, peers.

mod planes;
