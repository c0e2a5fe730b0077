//! How much of the open output of running requests is reserved.

/// Reserve before any decode pass, at conservativeness 1.
const START: f64 = 0.7;
/// Lowest reserve as a share of the first.
const FLOOR: f64 = 0.14;
/// Decode passes from the first reserve to the lowest.
const DECAY_PASSES: f64 = 600.0;
/// Tokens per remaining request that a retraction makes room for.
pub(super) const RETRACT_TOKENS: u32 = 20;

/// The new-token ratio: falls with every decode pass that fits, rises on a retraction, starts anew when idle.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    start: f64,
    floor: f64,
    step: f64,
    current: f64,
}

impl Ratio {
    /// Of `--schedule-conservativeness`.
    pub fn new(conservativeness: f64) -> Self {
        let start = (START * conservativeness).min(1.0);
        let floor = (start * FLOOR).min(1.0);
        Self { start, floor, step: (start - floor) / DECAY_PASSES, current: start }
    }

    /// Share of the open output that is reserved now.
    pub fn current(&self) -> f64 {
        self.current
    }

    /// Passes one by one: the sum of roundings is part of the state.
    pub(super) fn decay(&mut self, passes: u32) {
        for _ in 0..passes {
            if self.current <= self.floor {
                self.current = self.floor;
                return;
            }
            self.current = (self.current - self.step).max(self.floor);
        }
    }

    /// After a retraction: `outputs` made and `limits` wished by the `requests` that go on.
    pub(super) fn retracted(&mut self, outputs: u64, limits: u64, requests: u64) {
        let ahead = outputs + u64::from(RETRACT_TOKENS) * requests;
        self.current = (ahead as f64 / (limits + 1) as f64).min(1.0);
    }

    /// Nothing runs.
    pub(super) fn reset(&mut self) {
        self.current = self.start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_passes_decay_as_one_by_one() {
        let mut at_once = Ratio::new(1.0);
        let mut single = Ratio::new(1.0);
        at_once.decay(700);
        for _ in 0..700 {
            single.decay(1);
        }
        assert_eq!(at_once.current().to_bits(), single.current().to_bits());
        assert_eq!(at_once.current().to_bits(), (0.7_f64 * 0.14).to_bits());
    }

    #[test]
    fn a_retraction_sets_the_ratio_from_what_was_made() {
        let mut ratio = Ratio::new(0.1);
        ratio.retracted(30, 99, 1);
        assert_eq!(ratio.current().to_bits(), 0.5_f64.to_bits());
        ratio.retracted(90, 99, 2);
        assert_eq!(ratio.current().to_bits(), 1.0_f64.to_bits());
        ratio.reset();
        assert!(ratio.current() < 0.08);
    }
}
