//! Graphs and their objects.

mod bad;
mod built;
mod chart;
mod compatibility;
mod golden;
mod hash;
mod manifests;
mod properties;
mod roll;
mod rolling;
mod server;
