//! Requests in flight.

use dynosim_engine::{Nanos, Ticket};
use dynosim_workload::Turn;

/// A request in flight: its place in [`LiveRequests`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LiveId(pub(crate) u32);

/// A request inside an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    /// Number of the worker among all.
    pub(crate) worker: u32,
    pub(crate) ticket: Ticket,
}

/// What is known of a request in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Live {
    pub(crate) turn: Turn,
    pub(crate) arrival: Nanos,
    /// Worker that makes its output, where that is known, by its number in its pool.
    pub(crate) worker: Option<u32>,
    /// The worker's choice: prompt tokens that the router saw in its cache.
    pub(crate) overlap: Option<u32>,
    pub(crate) first_admit: Option<Nanos>,
    pub(crate) first_token: Nanos,
    pub(crate) second_token: Nanos,
    pub(crate) last_token: Nanos,
    /// Output tokens so far.
    pub(crate) tokens: u32,
    /// Prompt tokens found in the prefix cache at the first and at the last admission.
    pub(crate) first_cached: u32,
    pub(crate) last_cached: u32,
    /// Its way through two pools, if there are two.
    pub(crate) course: Course,
}

/// The way of a request from a prefill to a decode worker. Moments that have not come are none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Course {
    /// Prefill worker, by its number in its pool.
    pub(crate) prefill_worker: Option<u32>,
    /// Prompt tokens that the router saw in its cache.
    pub(crate) prefill_overlap: Option<u32>,
    pub(crate) source: Option<Seat>,
    pub(crate) destination: Option<Seat>,
    /// The prompt is computed, its KV held.
    pub(crate) held: Option<Nanos>,
    /// The decode worker has blocks for the prompt.
    pub(crate) reserved: Option<Nanos>,
    /// The KV has arrived; the prefill worker lets go of its own.
    pub(crate) activated: Option<Nanos>,
    pub(crate) decode_admit: Option<Nanos>,
    /// Prompt tokens that the decode worker had already.
    pub(crate) decode_cached: Option<u32>,
}

/// All of them, in an arena.
#[derive(Debug, Default)]
pub(crate) struct LiveRequests {
    slots: Vec<Option<Live>>,
    /// Per slot: hashes of the request's blocks, until the last engine that needs them has them.
    hashes: Vec<Vec<u64>>,
    vacant: Vec<LiveId>,
}

impl LiveRequests {
    pub(crate) fn insert(&mut self, live: Live, hashes: Vec<u64>) -> LiveId {
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.hashes.push(Vec::new());
            LiveId(self.slots.len() as u32 - 1)
        });
        self.slots[id.0 as usize] = Some(live);
        self.hashes[id.0 as usize] = hashes;
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
    pub(crate) fn get(&self, id: LiveId) -> &Live {
        self.slots[id.0 as usize].as_ref().expect("schedulers name only requests in flight")
    }

    /// A request that is in flight.
    pub(crate) fn get_mut(&mut self, id: LiveId) -> &mut Live {
        self.slots[id.0 as usize].as_mut().expect("schedulers name only requests in flight")
    }

    /// Hashes of a request's blocks.
    pub(crate) fn hashes(&self, id: LiveId) -> &[u64] {
        &self.hashes[id.0 as usize]
    }

    /// Hashes of a request's blocks, which nobody will ask for again.
    pub(crate) fn take_hashes(&mut self, id: LiveId) -> Vec<u64> {
        std::mem::take(&mut self.hashes[id.0 as usize])
    }

    /// All that are in flight.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Live> + '_ {
        self.vacant.clear();
        self.slots.drain(..).flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }
}
