//! Prompt tokens that a rank has yet to compute.

use std::collections::VecDeque;

use dynosim_engine::Nanos;

/// How long a prompt takes: the pluggable part of `router_prefill_load_model`.
pub trait PrefillEstimator: Send {
    /// Time to compute `new_tokens` after `cached_tokens` are there already, alone on the worker.
    fn duration(&mut self, new_tokens: u32, cached_tokens: u32) -> Nanos;
}

impl<F: FnMut(u32, u32) -> Nanos + Send> PrefillEstimator for F {
    fn duration(&mut self, new_tokens: u32, cached_tokens: u32) -> Nanos {
        self(new_tokens, cached_tokens)
    }
}

#[derive(Debug)]
struct Prefill {
    id: u64,
    tokens: u32,
    expected: Nanos,
}

/// The open prompts of a rank. With expected times, the oldest one counts less and less while it is computed.
#[derive(Debug, Default)]
pub(super) struct Prefills {
    tokens: u64,
    /// Oldest first; only those with an expected time.
    timed: VecDeque<Prefill>,
    /// Since when the first one is computed.
    since: Nanos,
}

impl Prefills {
    pub(super) fn add(&mut self, now: Nanos, id: u64, tokens: u32, expected: Option<Nanos>) {
        self.tokens += u64::from(tokens);
        let Some(expected) = expected else { return };
        if tokens == 0 {
            return;
        }
        if self.timed.is_empty() {
            self.since = now;
        }
        self.timed.push_back(Prefill { id, tokens, expected });
    }

    pub(super) fn remove(&mut self, now: Nanos, id: u64, tokens: u32) {
        self.tokens -= u64::from(tokens);
        let Some(at) = self.timed.iter().position(|prefill| prefill.id == id) else { return };
        self.timed.remove(at);
        if at == 0 {
            self.since = now;
        }
    }

    /// Tokens that are left.
    #[inline]
    pub(super) fn tokens(&self, now: Nanos) -> u64 {
        match self.timed.front() {
            None => self.tokens,
            Some(oldest) => self.tokens - oldest.done(now.since(self.since)),
        }
    }
}

impl Prefill {
    /// Tokens computed after a while, rounded down.
    fn done(&self, after: Nanos) -> u64 {
        if after >= self.expected {
            return u64::from(self.tokens);
        }
        (u128::from(self.tokens) * u128::from(after.0) / u128::from(self.expected.0)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_oldest_prompt_decays() {
        let mut prefills = Prefills::default();
        prefills.add(Nanos(0), 1, 100, Some(Nanos(1000)));
        prefills.add(Nanos(200), 2, 50, Some(Nanos(100)));
        assert_eq!(prefills.tokens(Nanos(500)), 100);
        assert_eq!(prefills.tokens(Nanos(5000)), 50);
        prefills.remove(Nanos(5000), 1, 100);
        assert_eq!(prefills.tokens(Nanos(5000)), 50);
        assert_eq!(prefills.tokens(Nanos(5050)), 25);
        prefills.remove(Nanos(5060), 2, 50);
        assert_eq!(prefills.tokens(Nanos(5060)), 0);
    }

    #[test]
    fn without_expected_times_nothing_decays() {
        let mut prefills = Prefills::default();
        prefills.add(Nanos(0), 1, 100, None);
        assert_eq!(prefills.tokens(Nanos::MAX), 100);
        prefills.remove(Nanos(1), 1, 100);
        assert_eq!(prefills.tokens(Nanos(1)), 0);
    }
}
