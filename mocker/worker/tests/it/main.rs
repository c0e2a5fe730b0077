//! Workers as others see them.

mod decisions;
mod disaggregated;
mod events;
mod lifecycle;
mod pace;
mod requests;
mod setup;
