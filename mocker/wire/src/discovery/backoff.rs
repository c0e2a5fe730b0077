//! How long to wait before trying again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Doubles with every failure.
#[derive(Debug)]
pub(super) struct Backoff {
    failures: u32,
    longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::up_to(LONGEST)
    }
}

impl Backoff {
    /// With another longest wait than usual.
    pub(super) fn up_to(longest: Duration) -> Self {
        Self { failures: 0, longest }
    }

    /// Nothing has failed since the last success.
    pub(super) fn is_first(&self) -> bool {
        self.failures == 0
    }

    /// The wait after one more failure.
    pub(super) fn next(&mut self) -> Duration {
        let wait = FIRST.saturating_mul(1 << self.failures.min(16)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// It worked. True if it had failed before.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(&mut self.failures) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_two_seconds_and_start_anew_after_a_success() {
        let mut backoff = Backoff::default();
        assert!(!backoff.end());
        let waits: Vec<_> = (0..8).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert!(backoff.end() && backoff.is_first());
        assert_eq!(backoff.next(), FIRST);
        let mut patient = Backoff::up_to(Duration::from_secs(30));
        assert_eq!((0..20).map(|_| patient.next()).max(), Some(Duration::from_secs(30)));
    }
}
