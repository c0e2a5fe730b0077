//! Workers as others see them.

mod pace;
