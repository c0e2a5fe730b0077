//! What came of a folder of logs.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// How the name of a scenario file ends.
pub(crate) const SCENARIO: &str = ".scenario.json";

#[derive(Default)]
pub(crate) struct Report {
    pub(crate) reproduced: usize,
    pub(crate) total: usize,
    pub(crate) failures: Vec<String>,
}

impl Report {
    pub(crate) fn merge(&mut self, other: Self) {
        self.reproduced += other.reproduced;
        self.total += other.total;
        self.failures.extend(other.failures);
    }

    pub(crate) fn add(&mut self, log: &str, result: Result<(), String>) {
        self.total += 1;
        match result {
            Ok(()) => self.reproduced += 1,
            Err(difference) => self.failures.push(format!("{log}: {difference}")),
        }
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

/// Compares one line of a log, field by field; an absent field equals an empty list or object.
pub(crate) fn compare(place: &str, expected: &Value, actual: &Value) -> Result<(), String> {
    let names = |line: &Value| line.as_object().expect("a line is an object").keys().cloned().collect::<Vec<_>>();
    for name in names(expected).iter().chain(&names(actual)) {
        let (want, got) = (expected.get(name), actual.get(name));
        let same = match (want, got) {
            (Some(want), Some(got)) => want == got || is_close(want, got),
            (Some(only), None) | (None, Some(only)) => is_empty(only),
            (None, None) => true,
        };
        if !same {
            let show = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
            return Err(format!("{place}, field {name}: expected {}, got {}", show(want), show(got)));
        }
    }
    Ok(())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Fractions may differ in the last digits.
fn is_close(want: &Value, got: &Value) -> bool {
    let fractions = want.is_f64() || got.is_f64();
    matches!((want.as_f64(), got.as_f64()), (Some(want), Some(got)) if fractions && (want - got).abs() < 1e-12)
}
