//! A rolling digest of everything that happened, to compare two runs.

use dynosim_engine::Nanos;
use dynosim_engine::hash::mix;

/// Changes with every event's time, kind and subject, and with their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest(u64);

/// What an event is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happened {
    Arrived,
    Rejected,
    StepEnded,
    Tokens,
    Preempted,
    Completed,
    Routed,
    Held,
    Reserved,
    Activated,
}

impl Digest {
    pub(crate) fn add(&mut self, time: Nanos, what: Happened, subject: u64) {
        self.0 = mix(mix(self.0, time.0), subject << 4 | what as u64);
    }

    /// Takes in the digest of what happened apart from this.
    pub(crate) fn append(&mut self, other: Self) {
        self.0 = mix(self.0, other.0);
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}
