//! The logs of `SGLang`: pairs of scenario and log, and what both kinds of them share.

use std::collections::HashMap;
use std::path::Path;

use dynosim_engine::pass::{KvEvent, KvEvents};
use serde_json::{Value, json};

use crate::report::{self, Report};
use crate::{sglang_loop, sglang_tree, tokens};

/// Replays every pair in the folder. A scenario with two tree variants counts once and needs both.
pub(crate) fn run(folder: &Path) -> Report {
    let mut report = Report::default();
    for path in report::scenarios(folder) {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
        let name = name.trim_end_matches(report::SCENARIO);
        report.add(&format!("sglang/{name}"), replay(folder, name, &report::read_json(&path)));
    }
    report
}

fn replay(folder: &Path, name: &str, scenario: &Value) -> Result<(), String> {
    let mut logs = 0;
    for variant in ["steps", "both", "unified", "radix"] {
        let path = folder.join(format!("{name}.{variant}.jsonl"));
        if path.exists() {
            logs += 1;
            let log = report::read_lines(&path);
            let result = match variant {
                "steps" => sglang_loop::replay(scenario, &log),
                _ => sglang_tree::replay(scenario, &log, variant == "radix"),
            };
            result.map_err(|difference| format!("{variant}: {difference}"))?;
        }
    }
    if logs > 0 { Ok(()) } else { Err("no log".to_owned()) }
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
                KvEvent::Stored { parent, start, len, .. } => {
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
