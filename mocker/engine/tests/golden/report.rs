//! Comparison of what was logged with what is decided.

use serde_json::Value;

pub(crate) use crate::folder::{Report, SCENARIO, read_json, read_lines, scenarios};

impl Report {
    pub(crate) fn merge(&mut self, other: Self) {
        self.reproduced += other.reproduced;
        self.total += other.total;
        self.failures.extend(other.failures);
    }
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
