//! The dynosim command line.

mod cli;
mod commands;
mod failure;
mod printer;
mod python;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
