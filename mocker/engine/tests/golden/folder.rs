//! A folder of logs, and what came of it. The router's golden test reads its logs by this file too.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Straight to the stream: the test harness keeps what macros print to itself.
pub(crate) fn say(line: &str) {
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}

/// The folder of all logs.
pub(crate) fn golden_dir() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/logs");
    if let Some(folder) = std::env::var_os("GOLDEN_DIR") {
        return PathBuf::from(folder);
    }
    if let Some(shared) = std::env::var_os("DYNOSIM_SHARED") {
        return PathBuf::from(shared).join("golden");
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden");
    if beside.is_dir() {
        return beside;
    }
    say("SKIPPED: the full set of golden logs is not here (GOLDEN_DIR); replaying the project's own few");
    own
}

/// How the name of a scenario file ends.
pub(crate) const SCENARIO: &str = ".scenario.json";

#[derive(Default)]
pub(crate) struct Report {
    pub(crate) reproduced: usize,
    pub(crate) total: usize,
    pub(crate) failures: Vec<String>,
}

impl Report {
    pub(crate) fn add(&mut self, log: &str, result: Result<(), String>) {
        self.total += 1;
        match result {
            Ok(()) => self.reproduced += 1,
            Err(difference) => self.failures.push(format!("{log}: {difference}")),
        }
    }

    /// Prints what differs and the count, which tells whether all is well.
    pub(crate) fn finish(self, folder: &Path) {
        for failure in &self.failures {
            say(failure);
        }
        say(&format!("golden: {} of {} logs reproduced", self.reproduced, self.total));
        assert!(self.total > 0, "no logs in {}", folder.display());
        assert_eq!(self.reproduced, self.total);
    }
}

/// The scenario files of a folder, in order of their names.
pub(crate) fn scenarios(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is readable");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("the folder is readable").path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(SCENARIO));
    files.sort();
    files
}

pub(crate) fn read_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub(crate) fn read_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().filter(|line| !line.is_empty()).map(parse).collect()
}
