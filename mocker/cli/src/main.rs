//! The dynosim command line.

mod cli;
mod commands;
mod failure;
mod live;
mod printer;
mod python;

use std::process::ExitCode;

/// Returns memory to the system after a peak, and is fast in a static image.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
