//! The dynosim command line.

mod cli;
mod commands;
mod failure;
mod live;
mod printer;
mod python;

pub use cli::run;
