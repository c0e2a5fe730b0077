//! Programs that live tests are run with, and machines may lack: etcd, NATS, Kubernetes' API server, the published release.
//!
//! A program that is missing is said loudly, and fails the test where everything must be there (`DYNOSIM_SHARED` is set;
//! for Kubernetes also where `CI` is `true`).

mod api_server;
mod authority;
mod golden;
mod namespace;
mod process;
mod servers;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

pub use api_server::{ApiServer, helm};
pub use golden::assert_golden;
pub use namespace::{Namespace, WORKER_METADATA};
pub use process::Process;
pub use servers::{Etcd, Nats};

/// Longer than any of the servers takes to start or to answer, on a machine that has much else to do.
const DEADLINE: Duration = Duration::from_secs(30);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// Where ports for tests come from. Those above go to whoever asks the system for any port, or opens a connection, and could
/// be taken before they are used.
const PORTS: Range<u16> = 10_000..30_000;
/// Some servers take the ports after theirs as well.
const PORTS_APART: u16 = 8;

/// The first of `candidates` that is a file; none if the test is to be skipped.
///
/// # Panics
/// If there is none and everything must be there.
pub fn find(name: &str, candidates: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let found = candidates.into_iter().find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("DYNOSIM_SHARED").is_none(), "{name} is missing");
        say_skipped(name);
    }
    found
}

/// The library that gives a process another wall clock (`FAKETIME`, or a file that `FAKETIME_TIMESTAMP_FILE` names); none if the
/// test is to be skipped.
///
/// # Panics
/// If it is not here and everything must be.
pub fn clock_library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    find("libfaketime", folders.map(|folder| folder.path().join("faketime/libfaketime.so.1")))
}

/// Says that a test is skipped for want of something.
///
/// # Panics
/// Where `CI` is `true`: there everything must be there.
pub fn skip(missing: &str) {
    assert!(!is_ci(), "{missing} is missing");
    say_skipped(missing);
}

fn say_skipped(missing: &str) {
    let note = format!("SKIPPED {}: {missing} is missing\n", std::thread::current().name().unwrap_or("a test"));
    // Past the test harness, which keeps what a passing test prints to itself.
    std::io::stderr().write_all(note.as_bytes()).expect("standard error takes it");
}

/// A continuous integration runs this, and misses nothing silently.
fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// A program in the folders of `PATH` or those of administrators.
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let admin = ["/usr/sbin", "/usr/local/bin"].map(PathBuf::from);
    find(name, std::env::split_paths(&path).chain(admin).map(|folder| folder.join(name)))
}

/// The Python interpreter that has the published release 1.6.1.
pub fn release() -> Option<PathBuf> {
    let home = std::env::var_os("BENCH_HOME").map(PathBuf::from);
    let cache = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/dynosim-bench"));
    let folder = home.or_else(cache).unwrap_or_default();
    find("the published release", [folder.join("dynamo-1.6.1/bin/python")])
}

/// The Python interpreter that has the clients which people use (`DYNOSIM_CLIENTS` names its environment).
pub fn clients() -> Option<PathBuf> {
    let folder = std::env::var_os("DYNOSIM_CLIENTS").map(PathBuf::from);
    find("the environment with clients", folder.map(|folder| folder.join("bin/python")))
}

/// Ports that nobody listens on, all different.
pub fn free_ports<const N: usize>() -> [u16; N] {
    [(); N].map(|()| free_port())
}

/// A port that nobody listens on, nor on the few after it, and that this program gives to nobody else.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let places = u32::from((PORTS.end - PORTS.start) / PORTS_APART);
    // Programs that run at once begin at different places.
    let place = || std::process::id().wrapping_mul(97).wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % places;
    let ports = (0..places).map(|_| PORTS.start + place() as u16 * PORTS_APART);
    let mut free = ports.filter(|&port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok());
    free.next().expect("a free port")
}

/// One request on a connection of its own, with a body of JSON; the whole answer, head included.
pub fn http(port: u16, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    connection.set_read_timeout(Some(DEADLINE))?;
    let head = format!("{method} {path} HTTP/1.0\r\nHost: test\r\nContent-Type: application/json");
    write!(connection, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Looks again and again until something is so.
///
/// # Panics
/// If it does not come to pass in time.
pub fn wait_until(what: &str, check: impl FnMut() -> bool) {
    assert!(look(DEADLINE, PAUSE, check), "not in time: {what}");
}

/// Looks with pauses until something is so; false if it is not within about the time given.
fn look(time: Duration, pause: Duration, mut check: impl FnMut() -> bool) -> bool {
    (0..time.as_millis() / pause.as_millis()).any(|_| {
        let is = check();
        if !is {
            sleep(pause);
        }
        is
    })
}
