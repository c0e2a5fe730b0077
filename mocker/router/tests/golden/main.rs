//! Replays the decision logs of the real router, operation by operation.
//!
//! Reads the `router` folder of `$GOLDEN_DIR` (default: `golden` in `$DYNOSIM_SHARED`, or in `../shared` beside the
//! project). Without it, the small logs in `tests/golden/logs` are replayed.

mod index;
mod report;
mod scenario;
mod service;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use report::{Report, SCENARIO, read_json, read_lines, scenarios};
use serde_json::Value;

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

fn replay(scenario: &Value, log: &[Value]) -> Result<(), String> {
    let ops = scenario["ops"].as_array().expect("operations");
    if ops.len() != log.len() {
        return Err(format!("{} operations, {} records", ops.len(), log.len()));
    }
    let mut index = index::Replay::new();
    let mut service = (scenario["kind"] == "router").then(|| service::Replay::new(scenario));
    for (op, record) in ops.iter().zip(log) {
        let place = format!("operation {} ({})", record["i"], op["op"].as_str().expect("a name"));
        match &mut service {
            Some(service) => service.step(op, record),
            None => index.step(op, record),
        }
        .map_err(|difference| format!("{place}, {difference}"))?;
    }
    Ok(())
}

#[test]
fn every_operation_of_the_real_router_is_reproduced() {
    let folder = golden_dir().join("router");
    let mut report = Report::default();
    for path in scenarios(&folder) {
        let name = path.file_name().expect("a file").to_string_lossy().replace(SCENARIO, "");
        let log = read_lines(&folder.join(format!("{name}.log.jsonl")));
        report.add(&name, replay(&read_json(&path), &log));
    }
    for failure in &report.failures {
        say(failure);
    }
    say(&format!("golden: {} of {} logs reproduced", report.reproduced, report.total));
    assert!(report.total > 0, "no logs in {}", folder.display());
    assert_eq!(report.reproduced, report.total);
}
