//! Comparison of what was logged with what is decided.

use serde_json::Value;

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
