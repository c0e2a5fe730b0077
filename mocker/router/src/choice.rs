//! Which of the priced candidates wins.

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::cost::Candidate;
use crate::request::Reason;

/// Names the random stream, so that no other use of the same seed draws the same numbers.
const STREAM: u64 = 0x726f_7574_6572;

/// The router's dice.
#[derive(Debug)]
pub(crate) struct Choice {
    temperature: f64,
    draws: Pcg64Mcg,
    weights: Vec<f64>,
}

impl Choice {
    pub(crate) fn new(temperature: f64, seed: u64) -> Self {
        let draws = Pcg64Mcg::seed_from_u64(dynosim_engine::hash::mix(seed, STREAM));
        Self { temperature, draws, weights: Vec::new() }
    }

    /// The winner's index; there is at least one candidate. Nothing is drawn where nothing is left to chance.
    pub(crate) fn among(&mut self, candidates: &[Candidate]) -> (usize, Reason) {
        if candidates.len() == 1 {
            return (0, Reason::OnlyCandidate);
        }
        if self.temperature > 0.0 {
            return (self.warm(candidates), Reason::Temperature);
        }
        let lowest = candidates.iter().map(|candidate| candidate.cost).fold(f64::INFINITY, f64::min);
        let ties = candidates.iter().filter(|candidate| candidate.cost <= lowest).count();
        let turn = if ties > 1 { self.below(ties) } else { 0 };
        let mut cheapest = candidates.iter().enumerate().filter(|(_, candidate)| candidate.cost <= lowest);
        let at = cheapest.nth(turn).map_or(0, |(at, _)| at);
        (at, if ties > 1 { Reason::Tie } else { Reason::LowestCost })
    }

    /// By softmax: a candidate's weight is exp(−cost / ((highest − lowest cost) · temperature)).
    fn warm(&mut self, candidates: &[Candidate]) -> usize {
        let mut weights = std::mem::take(&mut self.weights);
        probabilities(candidates, self.temperature, &mut weights);
        let mut left = (self.draws.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut at = 0;
        while at + 1 < weights.len() && left >= weights[at] {
            left -= weights[at];
            at += 1;
        }
        self.weights = weights;
        at
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.draws.next_u64()) * bound as u128) >> 64) as usize
    }
}

/// How likely each candidate is chosen at a temperature above 0.
pub fn probabilities(candidates: &[Candidate], temperature: f64, out: &mut Vec<f64>) {
    let costs = || candidates.iter().map(|candidate| candidate.cost);
    let lowest = costs().fold(f64::INFINITY, f64::min);
    let spread = costs().fold(f64::NEG_INFINITY, f64::max) - lowest;
    out.clear();
    out.extend(costs().map(|cost| if spread > 0.0 { (-(cost - lowest) / (spread * temperature)).exp() } else { 1.0 }));
    let sum: f64 = out.iter().sum();
    for weight in out {
        *weight /= sum;
    }
}
