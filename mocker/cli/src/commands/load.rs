//! `dynosim load`: a workload against any `OpenAI` endpoint.

mod flags;
mod interrupt;
mod setup;

pub(crate) use flags::Flags;

use dynosim_load::{LoadError, LoadOutcome, Stop, load};
use dynosim_replay::Table;

use crate::failure::Failure;
use crate::printer::{Printer, Verbosity, now};

/// What report files are named.
const REPORT_NAME: &str = "dynosim_load_report";

/// Sends the workload and reports.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let start = now();
    let printer = Printer(if flags.quiet { Verbosity::Quiet } else { Verbosity::Normal });
    flags.output.check()?;
    let mut setup = setup::Setup::new(flags, printer)?;
    let stop = Stop::default();
    interrupt::stop_on_signal(stop.clone())?;
    let mut progress = printer.progress(setup.workload.total_requests());
    let measured = load(&setup.config, &mut *setup.workload, &stop, &mut |done| progress.update(done));
    progress.finish();
    let measured = measured?;
    let wall_time_ms = now().duration_since(start).as_secs_f64() * 1e3;
    let saved = flags.output.write(REPORT_NAME, &measured.outcome, wall_time_ms)?;
    printer.result(Table { report: &measured.outcome.report, wall_time_ms })?;
    printer.result(failures(&measured))?;
    printer.result(format_args!("Saved full report to: {}\n", saved.display()))?;
    any_completed(&measured)?;
    flags.sla.hold(&measured.outcome.report)
}

/// One line per kind of failure.
fn failures(measured: &LoadOutcome) -> String {
    let line = |(kind, (count, message)): (_, &(u64, String))| format!("Errors {kind}: {count} (first: {message})\n");
    measured.failures.iter().map(line).collect()
}

/// A run without a single answer is no measurement.
fn any_completed(measured: &LoadOutcome) -> Result<(), Failure> {
    let first = measured.failures.iter().max_by_key(|(_, (count, _))| count);
    match (measured.completed, first) {
        (0, Some((kind, (count, message)))) => {
            Err(Failure::io(format_args!("no request was answered; {count} times {kind}: {message}")))
        }
        _ => Ok(()),
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Workload(error) => error.into(),
            LoadError::Stuck { .. } => Self::bug(error),
            LoadError::Models { .. } | LoadError::System(_) => Self::io(error),
        }
    }
}
