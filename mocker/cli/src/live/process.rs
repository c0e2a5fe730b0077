//! A live component as a process of its own: log, async runtime, signals.

use std::pin::pin;

use rustix::process::{
    Pid, Resource, Rlimit, Signal as Sent, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use super::{Env, Running};
use crate::failure::Failure;
use crate::printer::{Printer, Verbosity};

/// What is logged unless `DYN_LOG` or `RUST_LOG` says otherwise.
const DEFAULT_LOG: &str = "info";

/// Process id of the `up` that a component belongs to, which tells it so.
pub(crate) const PARENT: &str = "DYNOSIM_PARENT";

/// Runs the component that `start` starts until SIGTERM or SIGINT, then drains it; a second signal stops at once. A
/// component that is told to stop while it starts comes back with what it has started.
/// Prints one line once it serves.
pub(crate) fn run_component(
    env: &Env,
    start: impl AsyncFnOnce(CancellationToken) -> Result<Box<dyn Running>, Failure>,
) -> Result<(), Failure> {
    log_to_stderr(env)?;
    if end_with_parent(env)? == Parent::Gone {
        return Ok(());
    }
    let runtime = runtime(env)?;
    let outcome = runtime.block_on(serve_until_told(start));
    // Whatever still runs was given its time or is not wanted any more.
    runtime.shutdown_background();
    outcome
}

/// Whether there is somebody to run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parent {
    /// It is there, or there is none.
    There,
    Gone,
}

/// Lets the system send SIGTERM when the parent that the environment names has ended, however it did.
fn end_with_parent(env: &Env) -> Result<Parent, Failure> {
    let Some(parent) = env.parse::<i32>(PARENT, "a process id")? else { return Ok(Parent::There) };
    set_parent_process_death_signal(Some(Sent::TERM))
        .map_err(|error| Failure::io(format_args!("{PARENT}: its end cannot be waited for: {error}")))?;
    // The signal is for what comes: it may have ended before.
    Ok(if getppid().map(Pid::as_raw_pid) == Some(parent) { Parent::There } else { Parent::Gone })
}

/// The async runtime of a live command: as many threads as cores unless `DYN_RUNTIME_NUM_WORKER_THREADS` says otherwise,
/// and as many open files as the system allows.
pub(crate) fn runtime(env: &Env) -> Result<tokio::runtime::Runtime, Failure> {
    let threads: Option<std::num::NonZeroU16> = env.parse("DYN_RUNTIME_NUM_WORKER_THREADS", "1 to 65535")?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(usize::from(threads.get()));
    }
    allow_open_files();
    builder.enable_all().build().map_err(|error| Failure::io(format_args!("async runtime: {error}")))
}

/// Each stream holds a socket or two: raises the limit of open files, which is often 1,024, to what may be asked for.
fn allow_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!("limit of {current:?} open files cannot be raised to {maximum:?}: {error}");
    }
}

/// Logs to standard error what `DYN_LOG` (or `RUST_LOG`) asks for; as JSON lines if `DYN_LOGGING_JSONL` is true.
pub(crate) fn log_to_stderr(env: &Env) -> Result<(), Failure> {
    let (name, wanted) = ["DYN_LOG", "RUST_LOG"]
        .into_iter()
        .find_map(|name| Some((name, env.get(name)?)))
        .unwrap_or(("DYN_LOG", DEFAULT_LOG));
    let filter = EnvFilter::try_new(wanted).map_err(|error| {
        Failure::input(format_args!("{name}: `{wanted}` cannot be used: {error} (allowed: a level, or target=level,…)"))
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A log that is set up already stays: the parts of a graph in one process share it.
    let _ = if env.parse("DYN_LOGGING_JSONL", "true, false")?.unwrap_or(false) {
        lines.json().try_init()
    } else {
        lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init()
    };
    Ok(())
}

async fn serve_until_told(
    start: impl AsyncFnOnce(CancellationToken) -> Result<Box<dyn Running>, Failure>,
) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let stop = CancellationToken::new();
    let mut starting = pin!(start(stop.clone()));
    let running = tokio::select! {
        running = &mut starting => running?,
        () = signals.next() => {
            stop.cancel();
            tokio::select! {
                running = starting => return drain(running?, &mut signals).await,
                () = signals.next() => return Ok(()),
            }
        }
    };
    Printer(Verbosity::Normal).result(format_args!("{}\n", running.describe()))?;
    signals.next().await;
    drain(running, &mut signals).await
}

async fn drain(running: Box<dyn Running>, signals: &mut Signals) -> Result<(), Failure> {
    tokio::select! {
        () = running.drain() => {}
        () = signals.next() => tracing::warn!("told to stop twice: stopping without waiting for requests"),
    }
    Ok(())
}

/// SIGTERM and SIGINT.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes both signals over from the system's default, which is to die.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::io(format_args!("signal handler: {error}")));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// The next of either.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
