//! Graphs and their objects.

mod bad;
mod built;
mod golden;
mod hash;
mod lifecycle;
mod manifests;
mod properties;
mod roll;
mod rolling;
mod server;
mod space;
