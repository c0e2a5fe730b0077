//! The logs of `SGLang`: pairs of scenario and log, and what both kinds of them share.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use dynosim_engine::pass::{KvEvent, KvEvents};
use serde_json::{Map, Value, json};

use crate::{Report, sglang_loop, sglang_tree, tokens};

/// Replays every pair in the folder. A scenario with two tree variants counts once and needs both.
pub(crate) fn run(folder: &Path) -> Report {
    let mut report = Report::default();
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("the folder is there")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".scenario.json").map(str::to_owned))
        .collect();
    names.sort();
    for name in names {
        let scenario = read(&folder.join(format!("{name}.scenario.json")));
        let scenario: Value = serde_json::from_str(&scenario).expect("a scenario is JSON");
        report.total += 1;
        let before = report.failures.len();
        let mut logs = 0;
        for variant in ["steps", "both", "unified", "radix"] {
            let path = folder.join(format!("{name}.{variant}.jsonl"));
            if !path.exists() {
                continue;
            }
            logs += 1;
            let log: Vec<Value> =
                read(&path).lines().map(|line| serde_json::from_str(line).expect("a log line is JSON")).collect();
            let result = match variant {
                "steps" => sglang_loop::replay(&scenario, &log),
                _ => sglang_tree::replay(&scenario, &log, variant == "radix"),
            };
            if let Err(difference) = result {
                report.failures.push(format!("{name}.{variant}: {difference}"));
            }
        }
        if logs == 0 {
            report.failures.push(format!("{name}: no log"));
        }
        report.reproduced += usize::from(report.failures.len() == before);
    }
    report
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Compares two log lines field by field.
pub(crate) fn compare(at: &str, expected: &Value, actual: &Map<String, Value>) -> Result<(), String> {
    let expected = expected.as_object().expect("a log line is an object");
    for field in expected.keys().chain(actual.keys()) {
        let (left, right) = (expected.get(field), actual.get(field));
        let same = match (left.and_then(Value::as_f64), right.and_then(Value::as_f64)) {
            (Some(left), Some(right)) => (left - right).abs() < 1e-12,
            _ => left == right,
        };
        if !same {
            let show = |value: Option<&Value>| value.map_or("(absent)".to_owned(), Value::to_string);
            return Err(format!("{at}, {field}: expected {}, got {}", show(left), show(right)));
        }
    }
    Ok(())
}

/// Page hashes renamed in order of first appearance.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<u64, u64>);

impl Names {
    fn of(&mut self, hash: u64) -> u64 {
        let next = self.0.len() as u64;
        *self.0.entry(hash).or_insert(next)
    }

    /// The events of one step as the logs write them, adjacent ones merged.
    pub(crate) fn log(&mut self, events: &KvEvents) -> Vec<Value> {
        enum Merged {
            Stored(Option<u64>, Vec<u64>),
            Removed(Vec<u64>),
            Cleared,
        }
        let mut merged: Vec<Merged> = Vec::new();
        for event in &events.items {
            match *event {
                KvEvent::Stored { parent, start, len } => {
                    let hashes = &events.hashes[start as usize..(start + len) as usize];
                    match merged.last_mut() {
                        Some(Merged::Stored(_, last)) if parent.is_some() && last.last().copied() == parent => {
                            last.extend(hashes);
                        }
                        _ => merged.push(Merged::Stored(parent, hashes.to_vec())),
                    }
                }
                KvEvent::Removed { start, len } => {
                    let hashes = &events.hashes[start as usize..(start + len) as usize];
                    match merged.last_mut() {
                        Some(Merged::Removed(last)) => last.extend(hashes),
                        _ => merged.push(Merged::Removed(hashes.to_vec())),
                    }
                }
                KvEvent::Cleared => merged.push(Merged::Cleared),
            }
        }
        merged
            .into_iter()
            .map(|event| match event {
                Merged::Stored(parent, hashes) => {
                    let parent = parent.map(|hash| self.of(hash));
                    json!(["S", parent, tokens::runs(hashes.into_iter().map(|hash| self.of(hash)))])
                }
                Merged::Removed(hashes) => {
                    json!(["R", tokens::runs(hashes.into_iter().map(|hash| self.of(hash)))])
                }
                Merged::Cleared => json!(["C"]),
            })
            .collect()
    }
}
