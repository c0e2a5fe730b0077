//! A real etcd of the test's own.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dynosim_wire::runtime::DiscoveryConfig;
use tempfile::TempDir;

use crate::program;
use crate::sample::DEADLINE;

/// A running server, or a stopped one that may run again on the same ports.
pub(crate) struct Etcd {
    program: PathBuf,
    ports: [u16; 2],
    data: TempDir,
    child: Option<Child>,
}

impl Etcd {
    /// None if there is no etcd here.
    pub(crate) async fn start() -> Option<Self> {
        let program = program::find("etcd", program::in_path("etcd"))?;
        // Another process may take a port between its choice and its use; then others are tried.
        for _ in 0..5 {
            let (ports, data) = (free_ports(), tempfile::tempdir().expect("temporary folder"));
            let mut etcd = Self { program: program.clone(), ports, data, child: None };
            if etcd.resume().await {
                return Some(etcd);
            }
        }
        panic!("etcd does not start");
    }

    /// Starts with the data that is there. False if it ended at once.
    pub(crate) async fn resume(&mut self) -> bool {
        let [client, peer] = self.ports.map(|port| format!("http://127.0.0.1:{port}"));
        let child = Command::new(&self.program)
            .args(["--name", "test", "--data-dir"])
            .arg(self.data.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("test={peer}")])
            // With short elections, leases may be as short as a second.
            .args(["--heartbeat-interval", "20", "--election-timeout", "200", "--auto-compaction-retention", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd starts");
        let child = self.child.insert(child);
        let end = tokio::time::Instant::now() + DEADLINE;
        while tokio::time::Instant::now() < end {
            if child.try_wait().expect("state of etcd").is_some() {
                return false;
            }
            if healthy(self.ports[0]) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("etcd is not ready in time");
    }

    /// Ends the server as a crash would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("etcd can be killed");
            child.wait().expect("etcd ends");
        }
    }

    /// Removes all data of the stopped server.
    pub(crate) fn wipe(&self) {
        std::fs::remove_dir_all(self.data.path().join("data")).expect("data can be removed");
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    pub(crate) fn config(&self, ttl: Duration) -> DiscoveryConfig {
        DiscoveryConfig::Etcd { endpoints: vec![self.url()], ttl }
    }

    /// Calls the JSON gateway.
    pub(crate) fn call(&self, path: &str, body: &str) -> String {
        http(self.ports[0], "POST", path, body).expect("etcd answers")
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ports that are free at the moment.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let held = [(); N].map(|()| TcpListener::bind(("127.0.0.1", 0)).expect("a free port"));
    held.map(|listener| listener.local_addr().expect("its address").port())
}

fn healthy(port: u16) -> bool {
    http(port, "GET", "/health", "").is_ok_and(|answer| answer.contains("\"true\""))
}

/// One request on a connection of its own.
pub(crate) fn http(port: u16, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_read_timeout(Some(DEADLINE))?;
    let length = body.len();
    write!(connection, "{method} {path} HTTP/1.0\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{body}")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}
