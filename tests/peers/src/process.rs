//! A process of a test's own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Longest part of a log that a message shows, in bytes.
const SHOWN_BYTES: usize = 4000;

/// A process that ends with its handle.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it; what it says goes to the file `log`.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let output = File::create(log).expect("a log");
        let both = output.try_clone().expect("a log");
        let child = command.stdin(Stdio::null()).stdout(both).stderr(output).spawn().expect("it starts");
        Self { child, log: log.to_owned() }
    }

    /// `python -m module`, with the variables that keep the published release on this machine.
    pub fn of_release(python: &Path, module: &str) -> Command {
        let mut command = Command::new(python);
        command.args(["-m", module]);
        command.envs([("HF_HUB_OFFLINE", "1"), ("DYN_TCP_RPC_HOST", "127.0.0.1"), ("DYN_HTTP_RPC_HOST", "127.0.0.1")]);
        command
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// It has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_some()
    }

    /// Asks it to end as an operator would (SIGTERM), and waits for that.
    pub fn terminate(&mut self) -> ExitStatus {
        let asked = Command::new("kill").args(["-TERM", &self.id().to_string()]).status().expect("kill runs");
        assert!(asked.success(), "no process {}", self.id());
        self.child.wait().expect("it ends")
    }

    /// Ends it at once (SIGKILL).
    pub fn kill(&mut self) {
        // One that has ended already needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The last of what it has said, for messages of failed tests.
    pub fn log(&self) -> String {
        let said = std::fs::read(&self.log).expect("its log");
        String::from_utf8_lossy(&said[said.len().saturating_sub(SHOWN_BYTES)..]).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ends processes and removes folders once the test program has ended, in whatever way, or the handle is dropped: for what
/// tests share, which nobody drops.
#[derive(Debug)]
pub(crate) struct Executor {
    /// Waits for the end of its input, whose other end only this process has.
    _waiting: Child,
}

impl Executor {
    pub(crate) fn of(processes: &[u32], folders: &[&Path]) -> Self {
        let ids: Vec<_> = processes.iter().map(u32::to_string).collect();
        let script = "trap '' INT TERM HUP; cat >/dev/null; kill -KILL $1; shift; rm -rf \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", &ids.join(" ")]).args(folders);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { _waiting: command.spawn().expect("sh starts") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_until;

    #[test]
    fn what_is_shared_ends_with_its_executor() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Process::start(Command::new("sleep").arg("600"), &folder.path().join("log"));
        let executor = Executor::of(&[process.id()], &[folder.path()]);
        assert!(!process.has_ended());
        drop(executor);
        wait_until("the process ends", || process.has_ended());
        wait_until("the folder is gone", || !folder.path().exists());
    }
}
