//! The workers that requests may go to.

use std::collections::BTreeMap;

use crate::event::Target;
use crate::index::Slot;
use crate::request::Request;

/// A worker as it presents itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerSpec {
    /// Its id.
    pub worker: u64,
    /// Number of its first data-parallel rank.
    pub start_rank: u32,
    /// Data-parallel ranks, at least 1.
    pub ranks: u32,
    /// Token budget of a pass.
    pub max_num_batched_tokens: Option<u64>,
    /// KV blocks of a rank.
    pub total_kv_blocks: Option<u64>,
    /// Labels that requests may require or prefer.
    pub taints: Vec<String>,
}

impl WorkerSpec {
    /// A worker of one rank that tells nothing else.
    pub fn new(worker: u64) -> Self {
        Self { worker, ranks: 1, ..Self::default() }
    }
}

/// Whether requests can go to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// They can.
    Schedulable,
    /// Something is missing: with a queue, its token budget.
    Incomplete,
}

/// One rank's place in the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) target: Target,
    pub(crate) max_num_batched_tokens: Option<u64>,
    pub(crate) total_kv_blocks: Option<u64>,
}

#[derive(Debug)]
struct Worker {
    slots: Vec<Slot>,
    start_rank: u32,
    taints: Vec<String>,
    lifecycle: Lifecycle,
}

/// What a change of a worker did to slots.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) opened: Vec<Slot>,
    pub(crate) closed: Vec<Slot>,
}

/// All workers; ranks have dense numbers, which are used again.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    by_id: BTreeMap<u64, Worker>,
    seats: Vec<Seat>,
    free: Vec<Slot>,
    /// Slots of schedulable workers, by worker and rank.
    schedulable: Vec<Slot>,
}

impl Workers {
    /// One past the highest slot.
    pub(crate) fn bound(&self) -> usize {
        self.seats.len()
    }

    pub(crate) fn schedulable(&self) -> &[Slot] {
        &self.schedulable
    }

    #[inline]
    pub(crate) fn seat(&self, slot: Slot) -> Seat {
        self.seats[slot as usize]
    }

    /// Workers that requests can go to.
    pub(crate) fn schedulable_workers(&self) -> u64 {
        self.by_id.values().filter(|worker| worker.lifecycle == Lifecycle::Schedulable).count() as u64
    }

    pub(crate) fn knows(&self, worker: u64) -> bool {
        self.by_id.contains_key(&worker)
    }

    pub(crate) fn lifecycle(&self, worker: u64) -> Option<Lifecycle> {
        self.by_id.get(&worker).map(|worker| worker.lifecycle)
    }

    pub(crate) fn slot(&self, target: Target) -> Option<Slot> {
        let worker = self.by_id.get(&target.worker)?;
        worker.slots.get(target.rank.checked_sub(worker.start_rank)? as usize).copied()
    }

    /// Adds a worker, or changes one; ranks that are both before and after keep their slots.
    pub(crate) fn put(&mut self, spec: WorkerSpec, lifecycle: Lifecycle) -> Change {
        let mut change = Change::default();
        let before = self.by_id.remove(&spec.worker);
        let old = |rank: u32| before.as_ref().and_then(|old| old.slots.get(rank.checked_sub(old.start_rank)? as usize));
        let mut slots = Vec::new();
        for rank in spec.start_rank..spec.start_rank.saturating_add(spec.ranks.max(1)) {
            let seat = Seat {
                target: Target { worker: spec.worker, rank },
                max_num_batched_tokens: spec.max_num_batched_tokens,
                total_kv_blocks: spec.total_kv_blocks,
            };
            let slot = old(rank).copied().unwrap_or_else(|| {
                let slot = self.free.pop().unwrap_or(self.seats.len() as Slot);
                change.opened.push(slot);
                slot
            });
            if slot as usize == self.seats.len() {
                self.seats.push(seat);
            }
            self.seats[slot as usize] = seat;
            slots.push(slot);
        }
        if let Some(before) = before {
            change.closed.extend(before.slots.into_iter().filter(|slot| !slots.contains(slot)));
        }
        self.free.extend(&change.closed);
        let worker = Worker { slots, start_rank: spec.start_rank, taints: spec.taints, lifecycle };
        self.by_id.insert(spec.worker, worker);
        self.list();
        change
    }

    /// Takes a worker away; returns its slots.
    pub(crate) fn remove(&mut self, worker: u64) -> Option<Vec<Slot>> {
        let worker = self.by_id.remove(&worker)?;
        self.free.extend(&worker.slots);
        self.list();
        Some(worker.slots)
    }

    pub(crate) fn set_taints(&mut self, worker: u64, taints: Vec<String>) -> bool {
        self.by_id.get_mut(&worker).map(|worker| worker.taints = taints).is_some()
    }

    fn list(&mut self) {
        self.schedulable.clear();
        let schedulable = self.by_id.values().filter(|worker| worker.lifecycle == Lifecycle::Schedulable);
        self.schedulable.extend(schedulable.flat_map(|worker| &worker.slots));
    }

    /// Whether a request may go to a rank.
    #[inline]
    pub(crate) fn admits(&self, slot: Slot, request: &Request<'_>) -> bool {
        let target = self.seats[slot as usize].target;
        request.pinned.is_none_or(|pinned| pinned == target)
            && request.allowed.is_none_or(|allowed| allowed.contains(&target.worker))
            && (request.required_taints.is_empty() || self.has_all(target.worker, request.required_taints))
    }

    fn has_all(&self, worker: u64, taints: &[String]) -> bool {
        self.by_id.get(&worker).is_some_and(|worker| taints.iter().all(|taint| worker.taints.contains(taint)))
    }

    /// The factor that preferred taints put on a rank's cost.
    #[inline]
    pub(crate) fn preference(&self, slot: Slot, request: &Request<'_>) -> f64 {
        if request.preferred_taints.is_empty() || request.pinned.is_some() {
            return 1.0;
        }
        let Some(worker) = self.by_id.get(&self.seats[slot as usize].target.worker) else { return 1.0 };
        let weights = request.preferred_taints.iter().filter(|(taint, _)| worker.taints.contains(taint));
        let sum: f64 = weights.map(|(_, weight)| weight).sum();
        (-sum.tanh()).exp()
    }
}
