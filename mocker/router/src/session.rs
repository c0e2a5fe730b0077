//! Sessions: later requests follow the first one.

use dynosim_engine::Nanos;
use rustc_hash::FxHashMap;

use crate::hash;
use crate::index::Slot;

/// Which rank each session is bound to, for a while after its last reservation.
#[derive(Debug)]
pub(crate) struct Sessions {
    ttl: Nanos,
    bound: FxHashMap<u64, (Slot, Nanos)>,
    swept: Nanos,
}

impl Sessions {
    pub(crate) fn new(ttl: Nanos) -> Self {
        Self { ttl, bound: FxHashMap::default(), swept: Nanos::ZERO }
    }

    pub(crate) fn find(&self, now: Nanos, session: &str) -> Option<Slot> {
        self.bound.get(&hash::name(session)).filter(|(_, until)| now < *until).map(|&(slot, _)| slot)
    }

    pub(crate) fn bind(&mut self, now: Nanos, session: &str, slot: Slot) {
        self.bound.insert(hash::name(session), (slot, now + self.ttl));
    }

    /// Forgets what has expired, at most once per time to live.
    pub(crate) fn expire(&mut self, now: Nanos) {
        if now >= self.swept + self.ttl {
            self.swept = now;
            self.bound.retain(|_, (_, until)| now < *until);
        }
    }

    pub(crate) fn forget(&mut self, slot: Slot) {
        self.bound.retain(|_, (bound, _)| *bound != slot);
    }
}
