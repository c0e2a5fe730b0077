//! Processes of the published release.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::program;

/// Its Python, or none if the test is to be skipped.
pub(crate) fn python() -> Option<PathBuf> {
    let home = std::env::var_os("BENCH_HOME").map(PathBuf::from);
    let cache = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/dynosim-bench"));
    let folder = home.or_else(cache).unwrap_or_default();
    program::find("the published release", [folder.join("dynamo-1.6.1/bin/python")])
}

/// A process of the release that ends with its handle.
pub(crate) struct Upstream {
    child: Child,
    log: PathBuf,
}

impl Upstream {
    /// Runs `python -m MODULE ARGS`; its output goes to a file in `folder`.
    pub(crate) fn start(
        python: &Path,
        folder: &Path,
        module: &str,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let log = folder.join(format!("{module}.log"));
        let output = std::fs::File::create(&log).expect("log");
        let child = Command::new(python)
            .args(["-m", module])
            .args(args)
            .env("HF_HUB_OFFLINE", "1")
            .env("DYN_TCP_RPC_HOST", "127.0.0.1")
            .env("DYN_HTTP_RPC_HOST", "127.0.0.1")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("log"))
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .expect("the release starts");
        Self { child, log }
    }

    /// Asks it to end as an operator would, and waits for that.
    pub(crate) async fn terminate(&mut self) {
        let id = self.child.id().expect("it runs").to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status().await.expect("kill");
        assert!(asked.success());
        self.child.wait().await.expect("it ends");
    }

    /// What it has said, for messages of failed tests.
    pub(crate) fn log(&self) -> String {
        let mut text = String::new();
        std::fs::File::open(&self.log).and_then(|mut log| log.read_to_string(&mut text)).expect("log");
        text
    }
}
