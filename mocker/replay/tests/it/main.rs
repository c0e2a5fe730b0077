//! Runs against times worked out by hand, and against laws that hold for all of them.

mod equal;
mod handoff;
mod laws;
mod routing;
mod setup;
