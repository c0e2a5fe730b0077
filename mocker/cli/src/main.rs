//! The dynosim program.

use std::process::ExitCode;

/// Returns memory to the system after a peak, and is fast in a static image.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    dynosim_cli::run(std::env::args_os())
}
