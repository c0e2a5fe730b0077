//! Properties of the router as a whole.

mod config;
mod index;
mod load;
mod queue;
mod temperature;
