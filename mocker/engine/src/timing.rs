//! How long a forward pass takes.
//!
//! ```text
//!   batch ──► model (milliseconds, f64) ──► ÷ speed-up ──► Nanos (rounded here, once)
//! ```
//!
//! The formulas and the reduction of a batch to means are those of `dynamo-mocker` 1.6.1, whose numbers the tests hold.
//! A pass takes its prefill time plus its decode time; an empty half costs nothing. Only [`linear`] prices both halves of
//! a pass together, as one forward pass computes them.

pub mod builtin;
pub mod fixed;
pub mod interpolated;
pub mod linear;
pub mod npz;
pub mod polynomial;
pub mod profile;
pub mod regression;

pub use fixed::Fixed;
pub use interpolated::Interpolated;
pub use linear::Linear;
pub use profile::{ProfileError, load};

use crate::pass::{DecodeBatch, PrefillBatch};
use crate::request::Role;
use crate::time::Nanos;

/// The shortest decode step of the polynomial and the interpolated model, before the speed-up, in milliseconds.
pub const DECODE_FLOOR_MS: f64 = 1.0;

/// Prices a pass or its halves in unscaled milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TimingModel {
    /// The published default: two quadratics, see [`polynomial`].
    #[default]
    Polynomial,
    /// The same durations whatever the batch.
    Fixed(Fixed),
    /// Tables of a measured or fitted profile.
    Interpolated(Interpolated),
    /// One linear cost for both halves of a pass.
    Linear(Linear),
}

impl TimingModel {
    /// Milliseconds for the prompt tokens of a pass; 0 without requests or new tokens, never negative.
    #[inline]
    pub fn prefill_ms(&self, batch: PrefillBatch) -> f64 {
        let tokens = new_tokens(batch);
        if tokens == 0 {
            return 0.0;
        }
        match self {
            Self::Polynomial => polynomial::prefill_ms(tokens),
            Self::Fixed(fixed) => fixed.prefill_ms,
            Self::Interpolated(tables) => tables.prefill_ms(tokens),
            Self::Linear(linear) => linear.pass_ms(batch, DecodeBatch::default()),
        }
    }

    /// Milliseconds for one decode step; 0 without requests.
    ///
    /// `kv_capacity_tokens` is the size of the KV cache, blocks × tokens per block.
    #[inline]
    pub fn decode_ms(&self, batch: DecodeBatch, kv_capacity_tokens: u64) -> f64 {
        if batch.requests == 0 {
            return 0.0;
        }
        match self {
            Self::Polynomial => polynomial::decode_ms(batch.kv_tokens, kv_capacity_tokens),
            Self::Fixed(fixed) => fixed.decode_ms,
            Self::Linear(linear) => linear.pass_ms(PrefillBatch::default(), batch),
            Self::Interpolated(tables) => {
                tables.decode_ms(batch.kv_tokens, batch.kv_tokens / u64::from(batch.requests))
            }
        }
    }
}

/// The new tokens of a pass after the published reduction to means: `n · (⌊Σ(prefix + new) / n⌋ − ⌊Σprefix / n⌋)`.
///
/// Up to n − 1 tokens are lost or gained by it.
#[inline]
pub fn new_tokens(batch: PrefillBatch) -> u64 {
    if batch.requests == 0 || batch.new_tokens == 0 {
        return 0;
    }
    let n = u64::from(batch.requests);
    let mean_isl = batch.prefix_tokens.saturating_add(batch.new_tokens) / n;
    let mean_prefix = batch.prefix_tokens / n;
    n.saturating_mul(mean_isl - mean_prefix)
}

/// A timing model with the speed-ups applied: what an engine asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    model: TimingModel,
    prefill_divisor: f64,
    decode_divisor: f64,
}

impl Timing {
    /// Prefill time is divided by `speedup_ratio`, decode time by `speedup_ratio · decode_speedup_ratio`; a divisor that
    /// is not positive leaves the duration as it is.
    pub fn new(model: TimingModel, speedup_ratio: f64, decode_speedup_ratio: f64) -> Self {
        let divisor = |ratio: f64| if ratio > 0.0 { ratio } else { 1.0 };
        Self {
            model,
            prefill_divisor: divisor(speedup_ratio),
            decode_divisor: divisor(speedup_ratio * decode_speedup_ratio),
        }
    }

    /// The model without speed-ups.
    pub fn model(&self) -> &TimingModel {
        &self.model
    }

    /// Simulated time for the prompt tokens of a pass, see [`TimingModel::prefill_ms`].
    #[inline]
    pub fn prefill(&self, batch: PrefillBatch) -> Nanos {
        Nanos::from_ms(self.model.prefill_ms(batch) / self.prefill_divisor)
    }

    /// Simulated time for one decode step, see [`TimingModel::decode_ms`].
    #[inline]
    pub fn decode(&self, batch: DecodeBatch, kv_capacity_tokens: u64) -> Nanos {
        Nanos::from_ms(self.model.decode_ms(batch, kv_capacity_tokens) / self.decode_divisor)
    }

    /// Simulated time of a pass: prompt work, then decode work. An engine that only decodes gets its prompts' KV for
    /// nothing.
    ///
    /// With the linear model, what decodes add to a pass that has prompts is divided as decode time is.
    #[inline]
    pub fn pass(&self, role: Role, prefill: PrefillBatch, decode: DecodeBatch, kv_capacity_tokens: u64) -> Nanos {
        let prefill = if role == Role::Decode { PrefillBatch::default() } else { prefill };
        if let TimingModel::Linear(linear) = &self.model {
            let prompts = linear.pass_ms(prefill, DecodeBatch::default());
            let both = linear.pass_ms(prefill, decode);
            return Nanos::from_ms(prompts / self.prefill_divisor + (both - prompts) / self.decode_divisor);
        }
        self.prefill(prefill) + self.decode(decode, kv_capacity_tokens)
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::new(TimingModel::default(), 1.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 16384 * 64;

    fn prompt(tokens: u64) -> PrefillBatch {
        PrefillBatch { requests: 1, prefix_tokens: 0, new_tokens: tokens }
    }

    #[test]
    fn durations_equal_those_measured_on_the_published_mocker() {
        let timing = Timing::default();
        assert_eq!(timing.prefill(prompt(5000)), Nanos(102_943_593));
        assert_eq!(timing.decode(DecodeBatch { requests: 1, kv_tokens: 5001 }, CAPACITY), Nanos(5_997_006));
        assert_eq!(timing.decode(DecodeBatch { requests: 1, kv_tokens: 5056 }, CAPACITY), Nanos(5_999_826));
    }

    #[test]
    fn the_decode_floor_comes_before_the_speed_up() {
        let timing = Timing::new(TimingModel::Polynomial, 2.0, 3.0);
        assert_eq!(timing.prefill(prompt(5000)), Nanos(51_471_796));
        assert_eq!(timing.decode(DecodeBatch { requests: 1, kv_tokens: 5001 }, CAPACITY), Nanos(999_501));
    }

    #[test]
    fn a_speed_up_of_zero_leaves_durations_unscaled() {
        let batch = DecodeBatch { requests: 1, kv_tokens: 5001 };
        let timing = Timing::new(TimingModel::Polynomial, 0.0, 3.0);
        assert_eq!(timing.prefill(prompt(5000)), Nanos(102_943_593));
        assert_eq!(timing.decode(batch, CAPACITY), Nanos(5_997_006));
        assert_eq!(Timing::new(TimingModel::Polynomial, 2.0, 0.0).decode(batch, CAPACITY), Nanos(5_997_006));
    }

    #[test]
    fn empty_halves_cost_nothing() {
        let fixed = TimingModel::Fixed(Fixed { prefill_ms: 7.0, decode_ms: 0.25 });
        for model in [TimingModel::Polynomial, fixed.clone()] {
            let timing = Timing::new(model, 1.0, 1.0);
            assert_eq!(timing.prefill(PrefillBatch::default()), Nanos::ZERO);
            assert_eq!(timing.prefill(PrefillBatch { requests: 2, prefix_tokens: 9, new_tokens: 0 }), Nanos::ZERO);
            assert_eq!(timing.decode(DecodeBatch::default(), CAPACITY), Nanos::ZERO);
        }
        let timing = Timing::new(fixed, 1.0, 1.0);
        assert_eq!(timing.prefill(prompt(1)), Nanos(7_000_000));
        assert_eq!(timing.decode(DecodeBatch { requests: 1, kv_tokens: 1 }, CAPACITY), Nanos(250_000));
    }

    #[test]
    fn the_linear_model_prices_both_halves_at_once() {
        let linear =
            Linear { pass_ms: 6.0, prefill_ms_per_token: 0.5, decode_ms_per_request: 3.0, ..Linear::default() };
        let decode = DecodeBatch { requests: 2, kv_tokens: 9 };
        let (none, no_prompt) = (DecodeBatch::default(), PrefillBatch::default());
        let pass = |role, prefill, decode, decode_speedup| {
            Timing::new(TimingModel::Linear(linear), 2.0, decode_speedup).pass(role, prefill, decode, CAPACITY)
        };
        assert_eq!(pass(Role::Aggregated, prompt(10), decode, 1.0), Nanos(8_500_000));
        assert_eq!(pass(Role::Prefill, prompt(10), none, 1.0), Nanos(5_500_000));
        assert_eq!(pass(Role::Decode, prompt(10), decode, 1.0), Nanos(6_000_000));
        assert_eq!(pass(Role::Aggregated, no_prompt, decode, 3.0), Nanos(2_000_000));
        assert_eq!(pass(Role::Aggregated, prompt(10), decode, 3.0), Nanos(6_500_000));
        assert_eq!(pass(Role::Aggregated, no_prompt, none, 1.0), Nanos::ZERO);
    }

    #[test]
    fn new_tokens_are_recomputed_from_integer_means() {
        // isl mean 5/2 = 2, prefix mean 3/2 = 1: two new tokens stay two; with prefix 2, three become two.
        assert_eq!(new_tokens(PrefillBatch { requests: 2, prefix_tokens: 3, new_tokens: 2 }), 2);
        assert_eq!(new_tokens(PrefillBatch { requests: 2, prefix_tokens: 2, new_tokens: 3 }), 2);
        assert_eq!(new_tokens(PrefillBatch { requests: 2, prefix_tokens: 1, new_tokens: 3 }), 4);
        assert_eq!(new_tokens(PrefillBatch { requests: 0, prefix_tokens: 1, new_tokens: 3 }), 0);
    }

    #[test]
    fn extreme_batches_saturate() {
        let timing = Timing::new(TimingModel::Polynomial, 1e-150, 1e-150);
        let batch = PrefillBatch { requests: 2, prefix_tokens: 0, new_tokens: u64::MAX };
        assert_eq!(timing.prefill(batch), Nanos::MAX);
        assert_eq!(timing.decode(DecodeBatch { requests: 1, kv_tokens: u64::MAX }, 0), Nanos::MAX);
    }
}
