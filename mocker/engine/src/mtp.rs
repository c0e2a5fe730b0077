//! Multi-token prediction: how many tokens one decode step of one request yields.
//!
//! `nextn` draft tokens are proposed per step. Draft k is accepted with its conditional rate, given that all drafts
//! before it were; the first refusal ends the burst. The verified token always comes on top, so a burst has 1 to
//! `nextn` + 1 tokens, for the price of one decode step.

use crate::hash::mix;
use rand::Rng as _;
use rand_pcg::Pcg64Mcg;

/// The most drafts per step.
pub const NEXTN_MAX: usize = 5;

/// Conditional accept rates where none are given: the published default of `aiconfigurator` and the Dynamo mocker.
pub const ACCEPT_RATES_DEFAULT: [f64; NEXTN_MAX] = [0.85, 0.3, 0.0, 0.0, 0.0];

/// Names the random stream, so that no other use of the same seed draws the same numbers.
const STREAM: u64 = u64::from_be_bytes(*b"mtpburst");

/// Draws bursts from a seeded stream.
#[derive(Clone, Debug)]
pub struct Mtp {
    /// `reach[k]` is the probability that more than k drafts are accepted: the product of the first k + 1 rates.
    reach: [f64; NEXTN_MAX],
    nextn: usize,
    random: Pcg64Mcg,
}

impl Mtp {
    /// `nextn` drafts per step (at most [`NEXTN_MAX`], more are cut off) with conditional accept `rates` (0 to 1).
    /// Drafts without a rate are never accepted; rates beyond `nextn` are not used.
    ///
    /// The published mocker adds the rank of a worker to the configured seed (wrapping); the caller does so.
    pub fn new(nextn: u32, rates: &[f64], seed: u64) -> Self {
        let nextn = (nextn as usize).min(NEXTN_MAX);
        let mut reach = [0.0; NEXTN_MAX];
        let mut product = 1.0;
        for (slot, rate) in reach.iter_mut().zip(rates).take(nextn) {
            product *= rate;
            *slot = product;
        }
        let state = u128::from(mix(seed, STREAM)) << 64 | u128::from(mix(STREAM, seed));
        Self { reach, nextn, random: Pcg64Mcg::new(state) }
    }

    /// Drafts proposed per step.
    pub fn drafts(&self) -> u32 {
        self.nextn as u32
    }

    /// The tokens of the next step, 1 to `nextn` + 1. One draw per call.
    #[inline]
    pub fn burst(&mut self) -> u32 {
        let uniform = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let accepted = self.reach[..self.nextn].iter().take_while(|&&reach| uniform < reach).count();
        accepted as u32 + 1
    }

    /// Mean tokens per step.
    pub fn mean_burst(&self) -> f64 {
        1.0 + self.reach[..self.nextn].iter().sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_stream_is_pinned() {
        let mut mtp = Mtp::new(3, &[0.9, 0.7, 0.5], 42);
        let bursts: Vec<u32> = (0..32).map(|_| mtp.burst()).collect();
        let expected = [3, 1, 1, 4, 4, 4, 3, 3, 2, 3, 4, 3, 2, 3, 3, 4, 2, 2, 3, 4, 2, 4, 3, 2, 3, 4, 4, 4, 1, 3, 1, 4];
        assert_eq!(bursts, expected);
    }

    #[test]
    fn certain_and_impossible_drafts_fix_the_burst() {
        let mut all = Mtp::new(5, &[1.0; 5], 7);
        let mut none = Mtp::new(5, &[0.0; 5], 7);
        let mut padded = Mtp::new(3, &[1.0], 7);
        for _ in 0..100 {
            assert_eq!((all.burst(), none.burst(), padded.burst()), (6, 1, 2));
        }
    }

    #[test]
    fn seeds_give_different_streams() {
        let draw = |seed| {
            let mut mtp = Mtp::new(2, &[0.5, 0.5], seed);
            (0..64).map(|_| mtp.burst()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    proptest! {
        #[test]
        fn bursts_stay_in_range_and_average_to_the_mean(
            nextn in 1..=5u32, rates in prop::collection::vec(0.0..=1.0f64, 5), seed: u64,
        ) {
            let mut mtp = Mtp::new(nextn, &rates, seed);
            let draws = 20_000;
            let mut sum = 0;
            for _ in 0..draws {
                let burst = mtp.burst();
                prop_assert!((1..=nextn + 1).contains(&burst));
                sum += burst;
            }
            let mean = f64::from(sum) / f64::from(draws);
            // Six standard errors of a value in 1..=6.
            prop_assert!((mean - mtp.mean_burst()).abs() < 6.0 * 2.5 / f64::from(draws).sqrt());
        }
    }
}
