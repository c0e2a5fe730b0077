//! `dynosim replay`: one workload on one simulated configuration.

mod engines;
mod flags;
mod graph;
mod later;
mod router;
mod setup;

pub(crate) use flags::Flags;

use dynosim_replay::{Outcome, Table, replay};

use crate::failure::Failure;
use crate::printer::{Printer, Verbosity, now};

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let start = now();
    let printer = Printer(if flags.quiet { Verbosity::Quiet } else { Verbosity::Normal });
    later::refuse(flags)?;
    flags.output.check()?;
    let outcome = simulate(flags, printer)?;
    if flags.check_determinism {
        check_determinism(flags, &outcome)?;
        printer.note(format_args!("two runs agree, digest {:016x}", outcome.digest));
    }
    let wall_time_ms = now().duration_since(start).as_secs_f64() * 1e3;
    let saved = flags.output.write("dynamo_replay_report", &outcome, wall_time_ms)?;
    printer.result(Table { report: &outcome.report, wall_time_ms })?;
    explain(flags, &outcome, printer)?;
    printer.result(format_args!("Saved full report to: {}\n", saved.display()))?;
    flags.sla.hold(&outcome.report)
}

/// Prints what was asked for by `--explain-request`.
fn explain(flags: &Flags, outcome: &Outcome, printer: Printer) -> Result<(), Failure> {
    match (&flags.explain_request, &outcome.explanation) {
        (Some(id), Some(text)) => printer.result(format_args!("Request {id}\n{text}\n")),
        (Some(id), None) => {
            printer.note(format_args!("--explain-request {id}: no router has chosen a worker for this request"));
            Ok(())
        }
        (None, _) => Ok(()),
    }
}

fn simulate(flags: &Flags, printer: Printer) -> Result<Outcome, Failure> {
    let mut setup = setup::Setup::new(flags, printer)?;
    let mut progress = printer.progress(setup.workload.total_requests());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let outcome = replay(&setup.config, &mut *setup.workload, threads, &mut |done| progress.update(done));
    progress.finish();
    Ok(outcome?)
}

fn check_determinism(flags: &Flags, outcome: &Outcome) -> Result<(), Failure> {
    let again = simulate(flags, Printer(Verbosity::Quiet))?;
    let same = again.digest == outcome.digest && again.report.to_json(0.0) == outcome.report.to_json(0.0);
    if same {
        return Ok(());
    }
    let (first, second) = (outcome.digest, again.digest);
    Err(Failure::bug(format_args!("two runs differ: digests {first:016x} and {second:016x}; this is a bug")))
}
