//! Graphs and their objects.

mod bad;
mod built;
mod chart;
mod compatibility;
mod faults;
mod golden;
mod hash;
mod lifecycle;
mod manifests;
mod properties;
mod proxy;
mod roll;
mod rolling;
mod server;
mod several;
mod space;
