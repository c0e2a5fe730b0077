//! The one program of the image. It does what `dynosim` does, and under the name of `dynosim-operator` what that does: most
//! of both is the same code, which an image and the memory of a node then hold once.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use dynosim_operator::arguments::Arguments;

/// Returns memory to the system after a peak, and is fast in a static image.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    if Path::new(&name).file_name() == Some(OsStr::new("dynosim-operator")) {
        dynosim_operator::run::main(&Arguments::parse())
    } else {
        dynosim_cli::run(std::env::args_os())
    }
}
