//! All parts as processes of their own, over a folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::plan::{Part, Plan};
use crate::failure::Failure;
use crate::live::Env;
use crate::live::process::{PARENT, Signals, runtime};
use crate::printer::Printer;

/// Flags that say how parts find each other; here it is said for them.
const RUNTIME_FLAGS: [(&str, &str); 3] =
    [("--discovery-backend", "file"), ("--request-plane", "tcp"), ("--event-plane", "zmq")];

/// Variables of this process that its children share: what is logged, and how.
const SHARED_VARIABLES: [&str; 3] = ["DYN_LOG", "RUST_LOG", "DYN_LOGGING_JSONL"];

/// Runs until told to stop, or until all processes have ended.
pub(super) fn run(plan: &Plan, printer: Printer) -> Result<(), Failure> {
    let folder = tempfile::Builder::new().prefix("dynosim-up-").tempdir();
    let folder = folder.map_err(|error| Failure::io(format_args!("folder for discovery: {error}")))?;
    runtime(&Env::of_process())?.block_on(serve(plan, folder.path(), printer))
}

async fn serve(plan: &Plan, folder: &Path, printer: Printer) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let alive = Alive::default();
    let mut ended = JoinSet::new();
    for part in plan.parts.clone() {
        ended.spawn(supervise(part, folder.to_owned(), alive.clone(), printer));
    }
    loop {
        tokio::select! {
            end = ended.join_next() => match end {
                None => return Err(Failure::io("all processes have ended")),
                Some(Err(error)) => return Err(Failure::bug(error)),
                Some(Ok(outcome)) => printer.result(format_args!("{}\n", outcome?))?,
            },
            () = signals.next() => break,
        }
    }
    printer.note("stopping: running requests may end, Ctrl-C stops at once");
    alive.signal(Signal::TERM);
    tokio::select! {
        () = async { while ended.join_next().await.is_some() {} } => {}
        () = signals.next() => {
            alive.signal(Signal::KILL);
            while ended.join_next().await.is_some() {}
        }
    }
    Ok(())
}

/// Processes that have not been waited for: their ids cannot mean others yet.
#[derive(Clone, Debug, Default)]
struct Alive(Arc<Mutex<BTreeSet<u32>>>);

impl Alive {
    fn ids(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signal: Signal) {
        for pid in self.ids().iter().filter_map(|id| Pid::from_raw(id.cast_signed())) {
            // One that has just ended cannot be signalled, and needs not.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Starts a process when its time has come and waits for its end; gives back what to say then.
async fn supervise(part: Part, folder: PathBuf, alive: Alive, printer: Printer) -> Result<String, Failure> {
    tokio::time::sleep(part.delay).await;
    let mut child = spawn(&part, &folder)?;
    let id = child.id();
    alive.ids().extend(id);
    print_lines(part.label.clone(), child.stdout.take(), printer);
    print_lines(part.label.clone(), child.stderr.take(), printer);
    let status = child.wait().await;
    if let Some(id) = id {
        alive.ids().remove(&id);
    }
    Ok(match status {
        Ok(status) => format!("{}: ended, {status}", part.label),
        Err(error) => format!("{}: {error}", part.label),
    })
}

fn spawn(part: &Part, folder: &Path) -> Result<Child, Failure> {
    let failed = |error: std::io::Error| Failure::io(format_args!("{}: {error}", part.label));
    let mut flags = part.flags.clone();
    for (name, value) in RUNTIME_FLAGS {
        dynosim_api::flags::remove(&mut flags, name);
        flags.extend([name.to_owned(), value.to_owned()]);
    }
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg(part.program.command()).args(flags);
    let shared = SHARED_VARIABLES.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.env_clear().envs(shared).envs(&part.env).env("DYN_FILE_KV", folder);
    command.env(PARENT, std::process::id().to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().map_err(failed)
}

/// Passes on what a process says, with its name before each line.
fn print_lines(label: String, stream: Option<impl AsyncRead + Send + Unpin + 'static>, printer: Printer) {
    let Some(stream) = stream else { return };
    tokio::spawn(async move {
        let mut lines = BufReader::new(stream).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if printer.result(format_args!("{label:24} {line}\n")).is_err() {
                return;
            }
        }
    });
}
