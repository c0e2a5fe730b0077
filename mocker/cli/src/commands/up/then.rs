//! The command that runs against the graph once it is ready.

use std::ffi::OsString;
use std::process::ExitStatus;

use tokio::process::{Child, Command};

use crate::failure::Failure;

/// Starts it with `DYNOSIM_URL`, the address of the first frontend, in its environment.
pub(super) fn spawn(words: &[OsString], url: Option<&str>) -> Result<Child, Failure> {
    let Some((program, args)) = words.split_first() else { return Err(Failure::bug("a command without words")) };
    let mut command = Command::new(program);
    command.args(args).kill_on_drop(true);
    if let Some(url) = url {
        command.env("DYNOSIM_URL", url);
    }
    command.spawn().map_err(|error| Failure::io(format_args!("{}: {error}", program.display())))
}

/// Its end as the end of this command: its exit code if it failed.
pub(super) fn outcome(words: &[OsString], status: std::io::Result<ExitStatus>) -> Result<(), Failure> {
    let name = words.first().map(|word| word.display().to_string()).unwrap_or_default();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            Err(Failure::of_command(code, format_args!("{name}: {status}")))
        }
        Err(error) => Err(Failure::io(format_args!("{name}: {error}"))),
    }
}
