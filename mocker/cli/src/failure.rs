//! Why a command ended early, and the exit code that says so.

use std::fmt::Display;

use dynosim_replay::ReplayError;
use dynosim_workload::{OptionError, WorkloadError};

/// The user's input cannot be used; nothing was done.
pub(crate) const EXIT_INPUT: u8 = 2;
/// The run is complete but misses the wanted service level.
pub(crate) const EXIT_SLA: u8 = 3;
/// A file cannot be read or written.
pub(crate) const EXIT_IO: u8 = 4;
/// A fault of dynosim itself.
pub(crate) const EXIT_BUG: u8 = 101;

/// A message for the user with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) code: u8,
    message: String,
}

impl Failure {
    pub(crate) fn input(message: impl Display) -> Self {
        Self { code: EXIT_INPUT, message: message.to_string() }
    }

    pub(crate) fn sla(message: impl Display) -> Self {
        Self { code: EXIT_SLA, message: message.to_string() }
    }

    /// A command that was run for the user has failed: with its own exit code, if it has one.
    pub(crate) fn of_command(code: Option<u8>, message: impl Display) -> Self {
        Self { code: code.unwrap_or(EXIT_IO), message: message.to_string() }
    }

    /// The same failure, of a named part.
    pub(crate) fn within(self, part: &str) -> Self {
        Self { message: format!("{part}: {}", self.message), ..self }
    }

    pub(crate) fn io(message: impl Display) -> Self {
        Self { code: EXIT_IO, message: message.to_string() }
    }

    pub(crate) fn bug(message: impl Display) -> Self {
        Self { code: EXIT_BUG, message: message.to_string() }
    }
}

/// An option that has a flag of the same name.
impl From<OptionError> for Failure {
    fn from(error: OptionError) -> Self {
        let OptionError { name, value, allowed } = error;
        Self::input(format_args!("--{}: {value} is out of range (allowed: {allowed})", name.replace('_', "-")))
    }
}

impl From<WorkloadError> for Failure {
    fn from(error: WorkloadError) -> Self {
        match error {
            WorkloadError::Option(error) => error.into(),
            // A name that leads nowhere is the user's input; a disk that fails is not.
            WorkloadError::Io { ref source, .. } if source.kind() != std::io::ErrorKind::NotFound => Self::io(error),
            _ => Self::input(error),
        }
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Workload(error) => error.into(),
            ReplayError::Router(error) => Self::input(error),
            ReplayError::Stuck { .. } => Self::bug(error),
        }
    }
}
