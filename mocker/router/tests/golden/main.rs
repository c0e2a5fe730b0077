//! Replays the decision logs of the real router, operation by operation.
//!
//! Reads the `router` folder of `$GOLDEN_DIR` (default: `golden` in `$DYNOSIM_SHARED`, or in `../shared` beside the
//! project). Without it, the small logs in `tests/golden/logs` are replayed.

#[path = "../../../engine/tests/golden/folder.rs"]
mod folder;
mod index;
mod report;
mod scenario;
mod service;

use folder::{Report, SCENARIO, golden_dir, read_json, read_lines, scenarios};
use serde_json::Value;

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
    report.finish(&folder);
}
