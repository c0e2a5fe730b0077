//! Requests in flight.

use dynosim_engine::Nanos;
use dynosim_workload::Turn;

/// A request in flight: its place in [`LiveRequests`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveId(pub(crate) u32);

/// What is known of a request in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Live {
    pub(crate) turn: Turn,
    pub(crate) arrival: Nanos,
    /// Worker that makes its output, where that is known.
    pub(crate) worker: Option<u32>,
    pub(crate) first_admit: Option<Nanos>,
    pub(crate) first_token: Nanos,
    pub(crate) second_token: Nanos,
    pub(crate) last_token: Nanos,
    /// Output tokens so far.
    pub(crate) tokens: u32,
    /// Prompt tokens found in the prefix cache at the first and at the last admission.
    pub(crate) first_cached: u32,
    pub(crate) last_cached: u32,
}

/// All of them, in an arena.
#[derive(Debug, Default)]
pub(crate) struct LiveRequests {
    slots: Vec<Option<Live>>,
    vacant: Vec<LiveId>,
}

impl LiveRequests {
    pub(crate) fn insert(&mut self, live: Live) -> LiveId {
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            LiveId(self.slots.len() as u32 - 1)
        });
        self.slots[id.0 as usize] = Some(live);
        id
    }

    /// Takes a request out; none if it has left before.
    pub(crate) fn take(&mut self, id: LiveId) -> Option<Live> {
        let live = self.slots.get_mut(id.0 as usize)?.take();
        if live.is_some() {
            self.vacant.push(id);
        }
        live
    }

    /// A request that is in flight.
    pub(crate) fn get_mut(&mut self, id: LiveId) -> &mut Live {
        self.slots[id.0 as usize].as_mut().expect("schedulers name only requests in flight")
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }
}
