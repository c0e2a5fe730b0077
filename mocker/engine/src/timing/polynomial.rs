//! The default timing model: published quadratics that describe no particular GPU.
//!
//! Source of the coefficients: `dynamo-mocker` 1.3.1 and 1.6.1 (equal in both).

use super::DECODE_FLOOR_MS;

const PREFILL_QUADRATIC: f64 = 4.209_989e-07;
const PREFILL_LINEAR: f64 = 1.518_344e-02;
const PREFILL_CONSTANT: f64 = 16.501_42;
const DECODE_QUADRATIC: f64 = -25.74;
const DECODE_LINEAR: f64 = 54.01;
const DECODE_CONSTANT: f64 = 5.74;

/// Milliseconds to compute `tokens` new prompt tokens, at least 1 of them.
#[inline]
pub fn prefill_ms(tokens: u64) -> f64 {
    let t = tokens as f64;
    PREFILL_QUADRATIC * t * t + PREFILL_LINEAR * t + PREFILL_CONSTANT
}

/// Milliseconds of one decode step over sequences of `kv_tokens` tokens together, in a cache of `capacity_tokens`.
///
/// The formula knows only the usage, at most 1 (shared prefixes can make the logical lengths exceed the capacity).
#[inline]
pub fn decode_ms(kv_tokens: u64, capacity_tokens: u64) -> f64 {
    let usage = (kv_tokens as f64 / capacity_tokens.max(1) as f64).min(1.0);
    (DECODE_QUADRATIC * usage * usage + DECODE_LINEAR * usage + DECODE_CONSTANT).max(DECODE_FLOOR_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_clamped_at_a_full_cache() {
        assert_eq!(decode_ms(100, 100).to_bits(), decode_ms(250, 100).to_bits());
        assert!((decode_ms(100, 100) - 34.01).abs() < 1e-12);
        assert!((decode_ms(0, 100) - 5.74).abs() < 1e-12);
    }
}
