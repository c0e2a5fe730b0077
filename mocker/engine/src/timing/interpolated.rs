//! Linear interpolation in tables of durations.
//!
//! Prefill: 1-D over new tokens. Decode: bilinear over (KV tokens of the batch, mean context length). Beyond a table the
//! outermost cell is continued in a straight line. Allocation-free after construction.

use super::DECODE_FLOOR_MS;
use thiserror::Error;

/// Why tables are no valid profile. The messages name the axis or table, what was found and what is allowed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TableError {
    /// An axis is too short to interpolate on.
    #[error("`{axis}` has {found} values; allowed: at least 2")]
    Short {
        /// Array name.
        axis: &'static str,
        /// Its length.
        found: usize,
    },
    /// An axis does not increase.
    #[error("`{axis}` is not strictly increasing: value {index} is {value} after {previous}")]
    Order {
        /// Array name.
        axis: &'static str,
        /// Index of the offending value, from 0.
        index: usize,
        /// The value.
        value: f64,
        /// The one before it.
        previous: f64,
    },
    /// A value is infinite or not a number.
    #[error("`{array}` value {index} is {value}; allowed: finite numbers")]
    NotFinite {
        /// Array name.
        array: &'static str,
        /// Index in C order, from 0.
        index: usize,
        /// The value.
        value: f64,
    },
    /// Table and axes do not match.
    #[error("`{array}` has shape {found}; the axes ask for {expected}")]
    Shape {
        /// Array name.
        array: &'static str,
        /// Its shape, as text.
        found: String,
        /// The shape that would fit.
        expected: String,
    },
}

/// Checks that all values are finite.
pub(super) fn finite(array: &'static str, values: &[f64]) -> Result<(), TableError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(TableError::NotFinite { array, index, value: values[index] }),
        None => Ok(()),
    }
}

/// A strictly increasing axis of at least two finite values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    points: Vec<f64>,
    /// Cells per unit if the points were evenly spaced; guesses the cell in O(1) for the usual even grids.
    density: f64,
}

impl Axis {
    pub(super) fn new(name: &'static str, points: Vec<f64>) -> Result<Self, TableError> {
        finite(name, &points)?;
        if points.len() < 2 {
            return Err(TableError::Short { axis: name, found: points.len() });
        }
        if let Some(i) = points.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(TableError::Order { axis: name, index: i + 1, value: points[i + 1], previous: points[i] });
        }
        let density = (points.len() - 1) as f64 / (points[points.len() - 1] - points[0]);
        Ok(Self { points, density })
    }

    fn len(&self) -> usize {
        self.points.len()
    }

    /// The cell for `x` (the outermost one beyond the ends) and the position in it: 0 at its start, 1 at its end.
    #[inline]
    fn locate(&self, x: f64) -> (usize, f64) {
        let last_cell = self.points.len() - 2;
        let guess = (((x - self.points[0]) * self.density) as usize).min(last_cell);
        let cell = if self.points[guess] <= x && x < self.points[guess + 1] {
            guess
        } else {
            self.points.partition_point(|&point| point <= x).saturating_sub(1).min(last_cell)
        };
        let (start, end) = (self.points[cell], self.points[cell + 1]);
        (cell, (x - start) / (end - start))
    }
}

/// Durations of a measured or fitted profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Interpolated {
    prefill_tokens: Axis,
    prefill_ms: Vec<f64>,
    kv_tokens: Axis,
    context_tokens: Axis,
    /// Row per KV value, column per context length.
    decode_ms: Vec<f64>,
}

/// The arrays that make up [`Interpolated`], by the names they have in a mocker `.npz`.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// `[P]` new prompt tokens of a pass.
    pub prefill_isl: Vec<f64>,
    /// `[P]` milliseconds.
    pub prefill_ttft_ms: Vec<f64>,
    /// `[K]` KV tokens of a decode batch.
    pub decode_active_kv_tokens: Vec<f64>,
    /// `[C]` mean context length in tokens.
    pub decode_context_length: Vec<f64>,
    /// `[K, C]` milliseconds in C order.
    pub decode_itl: Vec<f64>,
}

impl Interpolated {
    /// Checks the tables: axes strictly increasing with two values or more, everything finite, lengths matching.
    pub fn new(tables: Tables) -> Result<Self, TableError> {
        let prefill_tokens = Axis::new("prefill_isl", tables.prefill_isl)?;
        let kv_tokens = Axis::new("decode_active_kv_tokens", tables.decode_active_kv_tokens)?;
        let context_tokens = Axis::new("decode_context_length", tables.decode_context_length)?;
        let (prefill_ms, decode_ms) = (tables.prefill_ttft_ms, tables.decode_itl);
        let shape = |array, found: usize, expected: String| {
            Err(TableError::Shape { array, found: format!("[{found}]"), expected })
        };
        if prefill_ms.len() != prefill_tokens.len() {
            return shape("prefill_ttft_ms", prefill_ms.len(), format!("[{}]", prefill_tokens.len()));
        }
        if Some(decode_ms.len()) != kv_tokens.len().checked_mul(context_tokens.len()) {
            let expected = format!("[{}, {}]", kv_tokens.len(), context_tokens.len());
            return shape("decode_itl", decode_ms.len(), expected);
        }
        finite("prefill_ttft_ms", &prefill_ms)?;
        finite("decode_itl", &decode_ms)?;
        Ok(Self { prefill_tokens, prefill_ms, kv_tokens, context_tokens, decode_ms })
    }

    /// Milliseconds to compute `tokens` new prompt tokens, at least 0.
    #[inline]
    pub fn prefill_ms(&self, tokens: u64) -> f64 {
        let (cell, t) = self.prefill_tokens.locate(tokens as f64);
        lerp(self.prefill_ms[cell], self.prefill_ms[cell + 1], t).max(0.0)
    }

    /// Milliseconds of one decode step, at least [`DECODE_FLOOR_MS`].
    #[inline]
    pub fn decode_ms(&self, kv_tokens: u64, mean_context: u64) -> f64 {
        let (row, t) = self.kv_tokens.locate(kv_tokens as f64);
        let (column, s) = self.context_tokens.locate(mean_context as f64);
        let columns = self.context_tokens.len();
        let at = row * columns + column;
        let low = lerp(self.decode_ms[at], self.decode_ms[at + 1], s);
        let high = lerp(self.decode_ms[at + columns], self.decode_ms[at + columns + 1], s);
        lerp(low, high, t).max(DECODE_FLOOR_MS)
    }
}

#[inline]
fn lerp(start: f64, end: f64, t: f64) -> f64 {
    start + (end - start) * t
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tables() -> Tables {
        Tables {
            prefill_isl: vec![100.0, 200.0, 1000.0],
            prefill_ttft_ms: vec![10.0, 30.0, 50.0],
            decode_active_kv_tokens: vec![0.0, 1000.0],
            decode_context_length: vec![1.0, 11.0, 31.0],
            decode_itl: vec![2.0, 4.0, 8.0, 12.0, 24.0, 48.0],
        }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn points_between_and_beyond_the_grid_lie_on_straight_lines() {
        let model = Interpolated::new(tables()).unwrap();
        close(model.prefill_ms(100), 10.0);
        close(model.prefill_ms(150), 20.0);
        close(model.prefill_ms(600), 40.0);
        close(model.prefill_ms(1400), 60.0);
        close(model.prefill_ms(60), 2.0);
        close(model.decode_ms(0, 6), 3.0);
        close(model.decode_ms(500, 6), 10.5);
        close(model.decode_ms(2000, 1), 22.0);
        close(model.decode_ms(1000, 51), 72.0);
    }

    #[test]
    fn floors_hold_where_extrapolation_goes_below() {
        let model = Interpolated::new(tables()).unwrap();
        close(model.prefill_ms(1), 0.0);
        let mut low = tables();
        low.decode_itl = vec![0.5; 6];
        close(Interpolated::new(low).unwrap().decode_ms(10, 10), DECODE_FLOOR_MS);
    }

    proptest! {
        #[test]
        fn the_cell_found_is_the_one_that_holds_the_value(
            steps in prop::collection::vec(1e-3..1e6f64, 1..40), x in -1e7..1e8f64,
        ) {
            let points: Vec<f64> = std::iter::once(0.0).chain(steps.iter().scan(0.0, |sum, step| { *sum += step; Some(*sum) })).collect();
            let axis = Axis::new("x", points.clone()).unwrap();
            let (cell, _) = axis.locate(x);
            prop_assert!(cell + 1 < points.len());
            prop_assert!(points[cell] <= x || cell == 0);
            prop_assert!(x < points[cell + 1] || cell + 2 == points.len());
        }
    }
}
