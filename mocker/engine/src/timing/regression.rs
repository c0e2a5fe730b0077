//! From scattered profiler samples to the tables of the interpolated model.
//!
//! A least-squares line (prefill) and a least-squares plane (decode) are fitted and then evaluated on even grids of
//! [`RESOLUTION`] points, which is how the published profile adapter of `ai-dynamo` 1.6.1 turns a profiler folder into
//! tables. Everything is in milliseconds and tokens.

use super::interpolated::{Interpolated, TableError, Tables, finite};
use thiserror::Error;

/// Points per axis of the grids.
pub const RESOLUTION: usize = 100;
/// The least duration a grid point gets: 1 µs, in milliseconds.
pub const GRID_FLOOR_MS: f64 = 1e-3;

/// Below this share of the largest possible determinant, samples count as lying on one line.
const DEGENERATE: f64 = 1e-12;

/// Why samples cannot be fitted.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FitError {
    /// Two arrays belong together and differ in length.
    #[error("`{array}` has {found} values, `{other}` has {expected}; allowed: equally many")]
    Lengths {
        /// Array name.
        array: &'static str,
        /// Its length.
        found: usize,
        /// The array it belongs to.
        other: &'static str,
        /// The length of that.
        expected: usize,
    },
    /// A value lies outside its range.
    #[error("`{array}` value {index} is {value}; allowed: {allowed}")]
    Range {
        /// Array name.
        array: &'static str,
        /// Index of the value, from 0.
        index: usize,
        /// The value.
        value: f64,
        /// What would be valid.
        allowed: &'static str,
    },
    /// A value is not finite, or the grid cannot be built.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Too few different samples.
    #[error("the samples of `{array}` do not determine a {shape}; needed: {needed}")]
    Degenerate {
        /// Array of the fitted durations.
        array: &'static str,
        /// What was to be fitted.
        shape: &'static str,
        /// What samples would do.
        needed: &'static str,
    },
    /// More work would take less time.
    #[error("`{array}` falls with the {variable} (fitted slope {slope:.3e} ms); allowed: slopes of at least 0")]
    Falling {
        /// Array of the fitted durations.
        array: &'static str,
        /// What it falls with.
        variable: &'static str,
        /// Milliseconds per unit.
        slope: f64,
    },
}

/// The arrays of a profiler folder, by their names there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// `[n]` prompt tokens.
    pub prefill_isl: Vec<f64>,
    /// `[n]` milliseconds to the first token.
    pub prefill_ttft: Vec<f64>,
    /// `[m]` share of the KV cache in use, 0 to 1.
    pub x_kv_usage: Vec<f64>,
    /// `[m]` context length in tokens.
    pub y_context_length: Vec<f64>,
    /// `[m]` milliseconds between tokens.
    pub z_itl: Vec<f64>,
    /// Size of the KV cache in tokens.
    pub max_kv_tokens: f64,
}

/// A fitted profile: `prefill = slope · tokens + intercept`, `decode = batch · requests + kv · KV tokens + constant`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Milliseconds per prompt token.
    pub prefill_slope: f64,
    /// Milliseconds.
    pub prefill_intercept: f64,
    /// Shortest prompt sampled, tokens.
    pub min_isl: f64,
    /// Longest prompt sampled, tokens.
    pub max_isl: f64,
    /// Milliseconds per request of the batch.
    pub decode_batch: f64,
    /// Milliseconds per KV token of the batch.
    pub decode_kv: f64,
    /// Milliseconds.
    pub decode_constant: f64,
    /// Size of the KV cache in tokens.
    pub max_kv_tokens: f64,
    /// Longest context sampled, tokens.
    pub max_context: f64,
}

impl Samples {
    /// Fits line and plane. A plane needs batch sizes, which the profiler does not write: they are estimated as KV
    /// tokens over context length, rounded, at least 1.
    pub fn fit(&self) -> Result<Fit, FitError> {
        self.check()?;
        let (prefill_slope, prefill_intercept) = fit_line(&self.prefill_isl, &self.prefill_ttft)?;
        let kv: Vec<f64> = self.x_kv_usage.iter().map(|usage| (usage * self.max_kv_tokens).round_ties_even()).collect();
        let batch: Vec<f64> = kv
            .iter()
            .zip(&self.y_context_length)
            .map(|(kv, context)| (kv / context).round_ties_even().max(1.0))
            .collect();
        let [decode_batch, decode_kv, decode_constant] = fit_plane(&batch, &kv, &self.z_itl)?;
        Ok(Fit {
            prefill_slope,
            prefill_intercept,
            min_isl: self.prefill_isl.iter().copied().fold(f64::INFINITY, f64::min),
            max_isl: self.prefill_isl.iter().copied().fold(0.0, f64::max),
            decode_batch,
            decode_kv,
            decode_constant,
            max_kv_tokens: self.max_kv_tokens,
            max_context: self.y_context_length.iter().copied().fold(0.0, f64::max),
        })
    }

    fn check(&self) -> Result<(), FitError> {
        same_length("prefill_ttft", &self.prefill_ttft, "prefill_isl", &self.prefill_isl)?;
        same_length("y_context_length", &self.y_context_length, "x_kv_usage", &self.x_kv_usage)?;
        same_length("z_itl", &self.z_itl, "x_kv_usage", &self.x_kv_usage)?;
        finite("prefill_ttft", &self.prefill_ttft)?;
        finite("z_itl", &self.z_itl)?;
        in_range("prefill_isl", &self.prefill_isl, 0.0..=TOKENS_MAX, TOKENS_ALLOWED)?;
        in_range("x_kv_usage", &self.x_kv_usage, 0.0..=1.0, "0 to 1")?;
        in_range("y_context_length", &self.y_context_length, 1.0..=TOKENS_MAX, "1 to 1e12 tokens")?;
        in_range("max_kv_tokens", &[self.max_kv_tokens], 1.0..=TOKENS_MAX, "1 to 1e12 tokens")
    }
}

const TOKENS_MAX: f64 = 1e12;
const TOKENS_ALLOWED: &str = "0 to 1e12 tokens";

impl Fit {
    /// Evaluates the fit on even grids: prompt lengths over the sampled range, KV tokens from 0 to the cache size,
    /// contexts from 1 to the longest; a grid point's batch is KV tokens over context, at least 1.
    pub fn tables(&self) -> Result<Interpolated, TableError> {
        let prefill_isl = linspace(self.min_isl, self.max_isl);
        let kv_axis = linspace(0.0, self.max_kv_tokens);
        let context_axis = linspace(1.0, self.max_context);
        let prefill = |tokens: &f64| (self.prefill_slope * tokens + self.prefill_intercept).max(GRID_FLOOR_MS);
        let decode = |kv: f64, context: f64| {
            let batch = (kv / context).max(1.0);
            (self.decode_batch * batch + self.decode_kv * kv + self.decode_constant).max(GRID_FLOOR_MS)
        };
        Interpolated::new(Tables {
            prefill_ttft_ms: prefill_isl.iter().map(prefill).collect(),
            prefill_isl,
            decode_itl: kv_axis
                .iter()
                .flat_map(|&kv| context_axis.iter().map(move |&context| decode(kv, context)))
                .collect(),
            decode_active_kv_tokens: kv_axis,
            decode_context_length: context_axis,
        })
    }
}

fn same_length(array: &'static str, values: &[f64], other: &'static str, expected: &[f64]) -> Result<(), FitError> {
    if values.len() == expected.len() {
        return Ok(());
    }
    Err(FitError::Lengths { array, found: values.len(), other, expected: expected.len() })
}

fn in_range(
    array: &'static str,
    values: &[f64],
    range: std::ops::RangeInclusive<f64>,
    allowed: &'static str,
) -> Result<(), FitError> {
    match values.iter().position(|value| !range.contains(value)) {
        Some(index) => Err(FitError::Range { array, index, value: values[index], allowed }),
        None => Ok(()),
    }
}

fn linspace(start: f64, end: f64) -> Vec<f64> {
    let step = (end - start) / (RESOLUTION - 1) as f64;
    (0..RESOLUTION).map(|i| if i + 1 == RESOLUTION { end } else { start + step * i as f64 }).collect()
}

/// Values minus their mean, and the mean.
fn centred(values: &[f64]) -> (Vec<f64>, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| value - mean).collect(), mean)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn slope(array: &'static str, variable: &'static str, slope: f64) -> Result<f64, FitError> {
    if slope < 0.0 { Err(FitError::Falling { array, variable, slope }) } else { Ok(slope) }
}

fn fit_line(x: &[f64], y: &[f64]) -> Result<(f64, f64), FitError> {
    let ((dx, mean_x), (dy, mean_y)) = (centred(x), centred(y));
    let a = dot(&dx, &dy) / dot(&dx, &dx);
    if !a.is_finite() {
        let needed = "two different prompt lengths";
        return Err(FitError::Degenerate { array: "prefill_ttft", shape: "line", needed });
    }
    let a = slope("prefill_ttft", "prompt length", a)?;
    Ok((a, mean_y - a * mean_x))
}

fn fit_plane(batch: &[f64], kv: &[f64], z: &[f64]) -> Result<[f64; 3], FitError> {
    let ((db, mean_b), (dk, mean_k), (dz, mean_z)) = (centred(batch), centred(kv), centred(z));
    let (bb, kk, bk) = (dot(&db, &db), dot(&dk, &dk), dot(&db, &dk));
    let (bz, kz) = (dot(&db, &dz), dot(&dk, &dz));
    let determinant = bb * kk - bk * bk;
    let (a, b) = ((bz * kk - kz * bk) / determinant, (kz * bb - bz * bk) / determinant);
    let spread = determinant > DEGENERATE * bb * kk;
    if !spread || !a.is_finite() || !b.is_finite() {
        let needed = "three samples whose batch sizes and KV tokens are not proportional";
        return Err(FitError::Degenerate { array: "z_itl", shape: "plane", needed });
    }
    let (a, b) = (slope("z_itl", "batch size", a)?, slope("z_itl", "number of KV tokens", b)?);
    Ok([a, b, mean_z - a * mean_b - b * mean_k])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples that lie exactly on a line and on a plane.
    pub(crate) fn exact() -> Samples {
        let contexts = [100.0, 100.0, 500.0, 500.0];
        let usage = [0.1, 0.8, 0.2, 0.9];
        let itl = contexts.iter().zip(usage).map(|(context, usage)| {
            let kv: f64 = usage * 10_000.0;
            0.5 * (kv / context).round() + 0.001 * kv + 4.0
        });
        Samples {
            prefill_isl: vec![100.0, 300.0, 1000.0],
            prefill_ttft: vec![12.0, 16.0, 30.0],
            x_kv_usage: usage.to_vec(),
            y_context_length: contexts.to_vec(),
            z_itl: itl.collect(),
            max_kv_tokens: 10_000.0,
        }
    }

    #[test]
    fn exact_samples_give_back_their_line_and_plane() {
        let fit = exact().fit().unwrap();
        for (found, expected) in [
            (fit.prefill_slope, 0.02),
            (fit.prefill_intercept, 10.0),
            (fit.decode_batch, 0.5),
            (fit.decode_kv, 0.001),
            (fit.decode_constant, 4.0),
        ] {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        let tables = fit.tables().unwrap();
        assert!((tables.prefill_ms(550) - 21.0).abs() < 1e-9);
        // A grid point: the last KV value and the longest context, 20 requests of 500 tokens.
        assert!((tables.decode_ms(10_000, 500) - 24.0).abs() < 1e-9);
    }

    #[test]
    fn one_sample_or_samples_on_a_line_fit_nothing() {
        let mut samples = exact();
        samples.prefill_isl = vec![100.0; 3];
        assert!(matches!(samples.fit(), Err(FitError::Degenerate { shape: "line", .. })));
        let mut samples = exact();
        samples.y_context_length = vec![100.0; 4];
        assert!(matches!(samples.fit(), Err(FitError::Degenerate { shape: "plane", .. })));
        assert!(matches!(Samples { max_kv_tokens: 1.0, ..Samples::default() }.fit(), Err(FitError::Degenerate { .. })));
    }
}
