//! Properties of the router as a whole.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod config;
mod extras;
mod index;
mod load;
mod queue;
mod temperature;
