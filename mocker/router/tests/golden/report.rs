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

/// Compares one field; numbers may differ by the logs' tolerance where either is a fraction.
pub(crate) fn expect(field: &str, want: &Value, got: &Value) -> Result<(), String> {
    if same(want, got) { Ok(()) } else { Err(format!("field {field}: expected {want}, got {got}")) }
}

fn same(want: &Value, got: &Value) -> bool {
    // Logged costs are rounded to three decimals.
    const TOLERANCE: f64 = 5e-4 + 1e-9;
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => {
            let inside = |(key, want): (&String, &Value)| got.get(key).is_some_and(|got| same(want, got));
            want.len() == got.len() && want.iter().all(inside)
        }
        (Value::Array(want), Value::Array(got)) => {
            want.len() == got.len() && want.iter().zip(got).all(|(want, got)| same(want, got))
        }
        (Value::Number(want), Value::Number(got)) if want.is_f64() || got.is_f64() => {
            matches!((want.as_f64(), got.as_f64()), (Some(want), Some(got)) if (want - got).abs() <= TOLERANCE)
        }
        _ => want == got,
    }
}
