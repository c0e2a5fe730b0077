//! The program: everything that runs, started and stopped in order.

use std::process::ExitCode;

use crate::arguments::Arguments;

/// Runs until the process is asked to end.
pub fn main(_arguments: Arguments) -> ExitCode {
    ExitCode::SUCCESS
}
