//! The simulated engine on a wall clock, serving Dynamo's live contract.

mod blocks;
mod driver;
mod flight;
pub mod handoff;
mod metrics;
mod pace;
mod progress;
mod queue;
mod report;
mod tokens;
