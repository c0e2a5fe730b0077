//! Other programs that the planes are tried with.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::DEADLINE;

/// A process that ends with the test.
pub(super) struct Process(Child);

impl Process {
    pub(super) fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says loudly that a test proves nothing here; where everything must be there, that is a failure.
pub(super) fn missing(what: &str) {
    assert!(std::env::var_os("DYNOSIM_SHARED").is_none(), "{what} is missing");
    std::io::stderr().write_all(format!("SKIPPED: {what} is missing\n").as_bytes()).unwrap();
}

pub(super) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Waits until something is so.
pub(super) async fn until<T>(deadline: Duration, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = check().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(deadline, waiting).await.expect("it did not come to pass in time")
}

/// A NATS server on `port`; none if there is no such program.
pub(super) async fn nats(port: u16) -> Option<Process> {
    let program = find("nats-server")?;
    let process = Process::start(Command::new(program).args(["-a", "127.0.0.1", "-p", &port.to_string()]));
    until(DEADLINE, async || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()).await;
    Some(process)
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).chain(["/usr/sbin".into()]).map(|folder| folder.join(program));
    found.into_iter().find(|file| file.is_file()).or_else(|| {
        missing(program);
        None
    })
}

/// The published release and a model folder in `folder`; none if either cannot be had.
pub(super) fn release(folder: &Path) -> Option<PathBuf> {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/dynosim-bench");
    let bench = std::env::var_os("BENCH_HOME").map_or_else(home, PathBuf::from);
    let python = bench.join("dynamo-1.6.1/bin/python");
    let shared = std::env::var_os("DYNOSIM_SHARED").map(PathBuf::from);
    let (true, Some(shared)) = (python.is_file(), shared) else {
        missing("the published release 1.6.1");
        return None;
    };
    let made = Command::new(&python).arg(shared.join("bench/model_dir.py")).arg(folder).status().unwrap();
    assert!(made.success(), "no model folder");
    Some(python)
}
