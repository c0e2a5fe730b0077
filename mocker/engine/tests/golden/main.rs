//! Replays the decision logs of the real schedulers, step for step.
//!
//! Reads the `vllm` and `sglang` folders of `$GOLDEN_DIR` (default: `golden` in `$DYNOSIM_SHARED`, or in `../shared`
//! beside the project); either folder may be absent. Without any, the small logs in `tests/golden/logs` are replayed.

mod report;
mod sglang;
mod sglang_loop;
mod sglang_tree;
mod tokens;
mod vllm;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use report::Report;

/// Straight to the stream: the test harness keeps what macros print to itself.
fn say(line: &str) {
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}

fn golden_dir() -> PathBuf {
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

#[test]
fn every_step_of_the_real_schedulers_is_reproduced() {
    let folder = golden_dir();
    let mut report = Report::default();
    for (name, run) in [("vllm", vllm::run as fn(&Path) -> Report), ("sglang", sglang::run)] {
        if folder.join(name).is_dir() {
            report.merge(run(&folder.join(name)));
        }
    }
    for failure in &report.failures {
        say(failure);
    }
    say(&format!("golden: {} of {} logs reproduced", report.reproduced, report.total));
    assert!(report.total > 0, "no logs in {}", folder.display());
    assert_eq!(report.reproduced, report.total);
}
