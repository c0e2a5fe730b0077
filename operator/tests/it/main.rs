//! Graphs and their objects.

mod admission;
mod bad;
mod built;
mod golden;
mod hash;
mod manifests;
mod properties;
mod roll;
mod rolling;
mod server;
mod webhook;
