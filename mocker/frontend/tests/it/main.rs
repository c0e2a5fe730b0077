//! The frontend before workers that are told what to do, and before the published ones.

mod client;
mod disaggregated;
mod fake;
mod fleet;
mod migration;
mod published;
mod routing;
mod streams;
