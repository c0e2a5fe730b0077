//! Programs that tests need and machines may lack.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

/// The program, or none if the test is to be skipped: said loudly, and a failure where everything must be there.
fn find(name: &str, candidates: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let found = candidates.into_iter().find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("DYNOSIM_SHARED").is_none(), "{name} is missing");
        let note = format!("SKIPPED {}: {name} is missing\n", std::thread::current().name().unwrap_or("a test"));
        std::io::stderr().write_all(note.as_bytes()).unwrap();
    }
    found
}

/// `nats-server`.
pub(crate) fn nats_server() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).chain(["/usr/sbin".into()]).collect();
    find("nats-server", folders.into_iter().map(|folder| folder.join("nats-server")))
}

/// The Python of the published release.
pub(crate) fn python() -> Option<PathBuf> {
    let home = std::env::var_os("BENCH_HOME").map(PathBuf::from);
    let cache = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/dynosim-bench"));
    find("the published release", [home.or_else(cache).unwrap_or_default().join("dynamo-1.6.1/bin/python")])
}

/// A port that nobody listened on just now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// A process that ends with its handle.
pub(crate) struct Process {
    _child: Child,
    log: PathBuf,
}

impl Process {
    /// Runs a program; its output goes to a file in `folder`.
    pub(crate) fn start(program: &Path, folder: &Path, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let log = folder.join(format!("{}.log", free_port()));
        let output = std::fs::File::create(&log).unwrap();
        let child = Command::new(program)
            .args(args)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { _child: child, log }
    }

    /// The last of what it has said, for messages of failed tests.
    pub(crate) fn log(&self) -> String {
        let said = std::fs::read(&self.log).unwrap();
        String::from_utf8_lossy(&said[said.len().saturating_sub(4000)..]).into_owned()
    }
}
