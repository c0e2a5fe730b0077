//! What goes to the terminal: results to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::Failure;

/// Runs shorter than this show no progress bar.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Results, notes, and progress on a terminal.
    Normal,
    /// Errors only.
    Quiet,
}

/// Prints for one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer(pub(crate) Verbosity);

impl Printer {
    /// A result.
    pub(crate) fn result(self, text: impl Display) -> Result<(), Failure> {
        if self.0 == Verbosity::Quiet {
            return Ok(());
        }
        match write!(io::stdout().lock(), "{text}") {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Failure::io(format_args!("standard output: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// Something worth knowing that is no result.
    pub(crate) fn note(self, text: impl Display) {
        if self.0 == Verbosity::Normal {
            // Nobody can be told that standard error does not work.
            let _ = writeln!(io::stderr().lock(), "note: {text}");
        }
    }

    /// Progress over `total` requests, shown on a terminal once the run has taken a second.
    pub(crate) fn progress(self, total: u64) -> Progress {
        let shown = self.0 == Verbosity::Normal && io::stderr().is_terminal();
        Progress { total, shown, start: now(), bar: None }
    }
}

/// An error; always printed.
pub(crate) fn error(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "error: {text}");
}

/// The host's clock.
#[allow(clippy::disallowed_methods, reason = "the command measures itself; nothing simulated sees this clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// A progress bar that comes up late or never.
pub(crate) struct Progress {
    total: u64,
    shown: bool,
    start: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn update(&mut self, done: u64) {
        if !self.shown || (self.bar.is_none() && now().duration_since(self.start) < PROGRESS_AFTER) {
            return;
        }
        let total = self.total;
        self.bar.get_or_insert_with(|| new_bar(total)).set_position(done);
    }

    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn new_bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let template = "{wide_bar} {human_pos}/{human_len} requests, {eta} left";
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}
