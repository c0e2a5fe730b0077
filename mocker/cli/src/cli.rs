//! Arguments of all commands.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{frontend, load, mocker, replay, trace, up};
use crate::failure::{EXIT_INPUT, Failure};
use crate::{printer, python};

/// Simulates LLM serving graphs without GPUs
#[derive(Debug, Parser)]
#[command(name = "dynosim", version, max_term_width = 120, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 2 input that cannot be used, 3 SLA missed (--fail-on-sla), 4 input or \
                          output failed, 101 a bug";

#[derive(Debug, Subcommand)]
enum Command {
    Replay(Box<replay::Flags>),
    Up(Box<up::Flags>),
    Mocker(Box<mocker::Flags>),
    Frontend(Box<frontend::Flags>),
    Load(Box<load::Flags>),
    #[command(subcommand)]
    Trace(trace::Command),
}

/// Runs the command that the arguments name, the first of which is the name of the program.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match python::translate(arguments.into_iter().collect()) {
        Ok(arguments) => arguments,
        Err(failure) => return fail(&failure),
    };
    let parsed = Cli::command().try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors.
            let code = if error.use_stderr() { EXIT_INPUT } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let outcome = match cli.command {
        Command::Replay(flags) => replay::run(&flags),
        Command::Up(flags) => up::run(&flags),
        Command::Mocker(flags) => mocker::run(&flags),
        Command::Frontend(flags) => frontend::run(*flags),
        Command::Load(flags) => load::run(&flags),
        Command::Trace(command) => trace::run(&command),
    };
    outcome.map_or_else(|failure| fail(&failure), |()| ExitCode::SUCCESS)
}

fn fail(failure: &Failure) -> ExitCode {
    printer::error(failure);
    ExitCode::from(failure.code)
}
