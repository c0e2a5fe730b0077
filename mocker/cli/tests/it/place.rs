//! A temporary folder in which the binary runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder that is gone after the test.
pub(crate) struct Place(TempDir);

/// What a run left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The binary, with nothing of this environment that changes what it prints.
pub(crate) fn dynosim() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynosim"));
    command.stdin(Stdio::null()).env("COLUMNS", "120").env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, with the folders it is in.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, content).expect("written");
        self
    }

    /// Runs the binary here.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let mut command = dynosim();
        command.args(args);
        self.run_command(command)
    }

    pub(crate) fn run_command(&self, mut command: Command) -> Ran {
        let output = command.current_dir(self.0.path()).output().expect("the binary starts");
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// `dynosim replay` with its report in `report.json`; fails the test unless it succeeds.
    pub(crate) fn replay(&self, args: &[&str]) -> Value {
        let ran = self.run(&[&["replay", "--report-json", "report.json", "--quiet"], args].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        self.json("report.json")
    }

    /// `dynosim replay` with its rows per request.
    pub(crate) fn rows(&self, args: &[&str]) -> Vec<Value> {
        self.replay(&[args, &["--report-jsonl", "rows.jsonl"]].concat());
        self.jsonl("rows.jsonl")
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).expect("JSON")
    }

    pub(crate) fn jsonl(&self, name: &str) -> Vec<Value> {
        self.read(name).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The files and folders here, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.0.path())
    }
}

/// The names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort_unstable();
    names
}

/// A number of a report or a row.
#[track_caller]
pub(crate) fn number(object: &Value, key: &str) -> f64 {
    object[key].as_f64().unwrap_or_else(|| panic!("`{key}` is {}", object[key]))
}

/// Fails unless two numbers are equal but for rounding in the last digits.
#[track_caller]
pub(crate) fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "found {found}, expected {expected}");
}
