//! The operator's program.

use std::process::ExitCode;

use clap::Parser as _;
use dynosim_operator::arguments::Arguments;

/// Returns memory to the system after a peak, and is fast in a static image.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    dynosim_operator::run::main(&Arguments::parse())
}
