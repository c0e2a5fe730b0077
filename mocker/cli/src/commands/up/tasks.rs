//! All parts as tasks of this process, over the `mem` store.

use std::ffi::OsString;
use std::time::Duration;

use dynosim_api::Program;
use dynosim_wire::discovery::MemStore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::plan::{Part, Plan};
use super::words::read_flags;
use crate::commands::{frontend, mocker};
use crate::failure::Failure;
use crate::live::process::{Signals, log_to_stderr, runtime};
use crate::live::{Env, Running, RuntimeFlags};
use crate::printer::Printer;

/// Frontends that have no model to serve by then will not get one.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// Flags of a part, read.
enum Parsed {
    Frontend(Box<frontend::Flags>),
    Mocker(Box<mocker::Flags>),
}

/// Runs until told to stop.
pub(super) fn run(plan: Plan, then: &[OsString], printer: Printer) -> Result<(), Failure> {
    // All flags are read before anything starts.
    let parts: Vec<_> = plan.parts.into_iter().map(parse).collect::<Result<_, _>>()?;
    let env = Env::of_process();
    log_to_stderr(&env)?;
    let runtime = runtime(&env)?;
    let outcome = runtime.block_on(serve(parts, then, printer));
    runtime.shutdown_background();
    outcome
}

fn parse(part: Part) -> Result<(Part, Parsed), Failure> {
    let parsed = match part.program {
        Program::Frontend => Parsed::Frontend(Box::new(read_flags(&part)?)),
        Program::Mocker => Parsed::Mocker(Box::new(read_flags(&part)?)),
    };
    Ok((part, parsed))
}

async fn serve(parts: Vec<(Part, Parsed)>, then: &[OsString], printer: Printer) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let store = MemStore::default();
    let mut starting = JoinSet::new();
    for (part, parsed) in parts {
        starting.spawn(start(part, parsed, store.clone()));
    }
    let mut running = Vec::new();
    loop {
        tokio::select! {
            started = starting.join_next() => match started {
                None => break,
                Some(Err(error)) => return Err(Failure::bug(error)),
                Some(Ok(Err(failure))) => {
                    drop(starting);
                    drain(running).await;
                    return Err(failure);
                }
                Some(Ok(Ok((part, component)))) => {
                    printer.result(format_args!("{:24} {}\n", part.label, component.describe()))?;
                    running.push((part.program, component));
                }
            },
            () = signals.next() => break,
        }
    }
    let outcome =
        if starting.is_empty() { serve_until_told(&running, then, &mut signals, printer).await } else { Ok(()) };
    drop(starting);
    if then.is_empty() {
        printer.note("stopping: running requests may end, Ctrl-C stops at once");
    }
    tokio::select! {
        () = drain(running) => {}
        () = signals.next() => {}
    }
    outcome
}

/// Until a signal comes, or until the command that was given has ended.
async fn serve_until_told(
    running: &[(Program, Box<dyn Running>)],
    then: &[OsString],
    signals: &mut Signals,
    printer: Printer,
) -> Result<(), Failure> {
    let ready = async {
        for (_, component) in running {
            component.ready().await;
        }
    };
    tokio::select! {
        () = ready => {}
        () = signals.next() => return Ok(()),
        () = tokio::time::sleep(READY_WITHIN) => return Err(Failure::io(format_args!(
            "no frontend has had a model to serve within {} s: do the workers' roles and names fit together?",
            READY_WITHIN.as_secs()
        ))),
    }
    let url = running.iter().find_map(|(_, component)| component.url());
    if then.is_empty() {
        printer.result("ready, Ctrl-C stops\n")?;
        signals.next().await;
        return Ok(());
    }
    let mut child = super::then::spawn(then, url.as_deref())?;
    tokio::select! {
        status = child.wait() => super::then::outcome(then, status),
        () = signals.next() => Ok(()),
    }
}

async fn start(part: Part, parsed: Parsed, store: MemStore) -> Result<(Part, Box<dyn Running>), Failure> {
    if part.delay > Duration::ZERO {
        tokio::time::sleep(part.delay).await;
    }
    let env = Env::default().with(part.env.clone());
    let named = |failure: Failure| failure.within(&part.label);
    let component = match parsed {
        Parsed::Frontend(mut flags) => {
            flags.runtime = RuntimeFlags::in_process();
            frontend::start(*flags, &env, Some(&store)).await.map_err(named)?
        }
        Parsed::Mocker(mut flags) => {
            flags.runtime = RuntimeFlags::in_process();
            // All parts end with this process; nobody else has heard of them.
            mocker::start(*flags, &env, Some(&store), &CancellationToken::new()).await.map_err(named)?
        }
    };
    Ok((part, component))
}

/// Frontends first, so that no request finds its workers gone.
async fn drain(running: Vec<(Program, Box<dyn Running>)>) {
    let (frontends, workers): (Vec<_>, Vec<_>) =
        running.into_iter().partition(|(program, _)| *program == Program::Frontend);
    for group in [frontends, workers] {
        let mut draining: JoinSet<()> = group.into_iter().map(|(_, component)| component.drain()).collect();
        while draining.join_next().await.is_some() {}
    }
}
