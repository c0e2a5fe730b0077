//! Servers of a test's own.

use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::{Process, free_port, free_ports, http, installed, wait_until};

/// An etcd: a running server, or a stopped one that may run again on the same ports.
#[derive(Debug)]
pub struct Etcd {
    program: PathBuf,
    flags: &'static [&'static str],
    ports: [u16; 2],
    folder: TempDir,
    process: Option<Process>,
}

impl Etcd {
    /// None if there is no etcd here.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start() -> Option<Self> {
        installed("etcd").map(|program| Self::of(&program, &[]))
    }

    /// A program of the caller's choice, with flags beyond the usual ones.
    pub(crate) fn of(program: &Path, flags: &'static [&'static str]) -> Self {
        // Another process may take a port between its choice and its use; then others are tried.
        for _ in 0..5 {
            let (ports, folder) = (free_ports(), tempfile::tempdir().expect("a folder"));
            let mut etcd = Self { program: program.to_owned(), flags, ports, folder, process: None };
            if etcd.resume() {
                return etcd;
            }
        }
        panic!("etcd does not start");
    }

    /// Starts with the data that is there. False if it ended at once.
    pub fn resume(&mut self) -> bool {
        let [client, peer] = self.ports.map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new(&self.program);
        command.args(["--name", "test", "--data-dir"]).arg(self.folder.path().join("data"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("test={peer}")]);
        // With short elections, leases may be as short as a second.
        command.args(["--heartbeat-interval", "20", "--election-timeout", "200", "--auto-compaction-retention", "0"]);
        command.args(self.flags);
        let mut process = Process::start(&mut command, &self.folder.path().join("log"));
        let mut ended = false;
        wait_until("etcd is ready", || {
            ended = process.has_ended();
            ended || http(self.ports[0], "GET", "/health", "").is_ok_and(|answer| answer.contains("\"true\""))
        });
        self.process = Some(process);
        !ended
    }

    /// Ends the server as a crash would.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Removes all data of the stopped server.
    pub fn wipe(&self) {
        std::fs::remove_dir_all(self.folder.path().join("data")).expect("data can be removed");
    }

    /// Id of the running server.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// Calls the JSON gateway.
    pub fn call(&self, path: &str, body: &str) -> String {
        http(self.ports[0], "POST", path, body).expect("etcd answers")
    }
}

/// A NATS server of a test's own; its port stays the same when it runs again.
#[derive(Debug)]
pub struct Nats {
    program: PathBuf,
    port: u16,
    folder: TempDir,
    process: Option<Process>,
}

impl Nats {
    /// None if there is no `nats-server` here.
    pub fn start() -> Option<Self> {
        let program = installed("nats-server")?;
        let mut nats =
            Self { program, port: free_port(), folder: tempfile::tempdir().expect("a folder"), process: None };
        nats.resume();
        Some(nats)
    }

    /// Starts again, with nothing remembered.
    pub fn resume(&mut self) {
        let mut command = Command::new(&self.program);
        command
            .args(["-a", "127.0.0.1", "-p", &self.port.to_string(), "-js", "-sd"])
            .arg(self.folder.path().join("streams"));
        self.process = Some(Process::start(&mut command, &self.folder.path().join("log")));
        wait_until("nats-server listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok());
    }

    /// Ends the server as a crash would.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}
