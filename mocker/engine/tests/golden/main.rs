//! Replays the decision logs of real engines step for step.
//!
//! The logs lie outside the repository: `$GOLDEN_DIR`, else `../shared/golden` beside the workspace. Without them the
//! tests pass and say so.

#![allow(clippy::print_stderr, reason = "a skipped or failed log is reported to whoever runs the tests")]

mod sglang;
mod sglang_loop;
mod sglang_tree;
mod tokens;

use std::path::{Path, PathBuf};

/// What came of the logs of one folder.
#[derive(Debug, Default)]
pub struct Report {
    /// Logs reproduced in full.
    pub reproduced: usize,
    /// Logs replayed.
    pub total: usize,
    /// Log, step, field, expected and actual value of each first difference.
    pub failures: Vec<String>,
}

fn folder(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("GOLDEN_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden"), PathBuf::from);
    let folder = root.join(name);
    folder.is_dir().then_some(folder)
}

#[test]
fn sglang_logs_are_reproduced() {
    let Some(folder) = folder("sglang") else {
        eprintln!("no golden logs here, nothing was checked");
        return;
    };
    let report = sglang::run(&folder);
    for failure in &report.failures {
        eprintln!("{failure}");
    }
    eprintln!("sglang: {} of {} logs reproduced", report.reproduced, report.total);
    assert_eq!(report.reproduced, report.total);
}
