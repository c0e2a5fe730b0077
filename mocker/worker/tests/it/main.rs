//! Workers as others see them.

mod cross;
mod decisions;
mod disaggregated;
mod events;
mod lifecycle;
mod pace;
mod published;
mod requests;
mod setup;
