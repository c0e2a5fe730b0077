//! The router of one pool of workers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use dynosim_engine::Nanos;
use dynosim_router::{Decision, Event, EventError, RouteError, Router, Target, Tier, Waiting, WorkerSpec};
use dynosim_wire::event::{EventData, RouterEvent, StorageTier};
use dynosim_wire::time::now;
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use super::book::Placed;
use crate::metrics::PoolMetrics;
use crate::models::Worker;

/// A router behind a lock, with who waits for it.
#[derive(Debug)]
pub(crate) struct KvRouter {
    pub(super) number: u64,
    pub(super) block_size: usize,
    pub(super) metrics: PoolMetrics,
    /// Blocks of outputs count as well.
    pub(super) tracks_output: bool,
    /// Zero of the router's clock.
    born: Instant,
    state: Mutex<State>,
}

/// What the lock guards.
#[derive(Debug)]
pub(super) struct State {
    pub(super) router: Router,
    /// All workers of the router.
    pub(super) workers: BTreeMap<u64, Arc<Worker>>,
    /// Who waits in the router's queue.
    pub(super) waiting: FxHashMap<u64, oneshot::Sender<Result<Placed, RouteError>>>,
    pub(super) next: u64,
    /// What metrics were told to wait.
    told: Waiting,
}

impl KvRouter {
    pub(super) fn new(router: Router, number: u64, block_size: u32, metrics: PoolMetrics) -> Self {
        Self {
            number,
            block_size: block_size as usize,
            metrics,
            tracks_output: router.config().router_track_output_blocks,
            born: now(),
            state: Mutex::new(State {
                router,
                workers: BTreeMap::new(),
                waiting: FxHashMap::default(),
                next: 0,
                told: Waiting::default(),
            }),
        }
    }

    /// Does something with the router; whoever may leave the queue then does.
    pub(super) fn with<T>(&self, does: impl FnOnce(&mut State, Nanos) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock: the router's time never runs backwards.
        let now = Nanos(now().saturating_duration_since(self.born).as_nanos() as u64);
        let done = does(&mut state, now);
        state.admit(now);
        let waiting = state.router.waiting();
        if waiting != state.told {
            self.metrics.waiting(std::mem::replace(&mut state.told, waiting), waiting);
        }
        done
    }

    /// These are the workers from now on.
    pub(super) fn settle(&self, workers: &[Arc<Worker>]) {
        self.with(|state, now| {
            let gone: Vec<u64> =
                state.workers.keys().copied().filter(|id| workers.iter().all(|worker| worker.id() != *id)).collect();
            for id in gone {
                state.workers.remove(&id);
                // A worker that is in the map is known to the router.
                let _ = state.router.remove_worker(now, id);
            }
            for worker in workers {
                let known = state.workers.get(&worker.id());
                if known.is_none_or(|known| !Arc::ptr_eq(known, worker)) {
                    state.router.add_worker(now, spec(worker));
                    state.workers.insert(worker.id(), Arc::clone(worker));
                }
            }
        });
    }

    /// A rank's cache has changed.
    pub(super) fn apply(&self, target: Target, event: &RouterEvent) {
        let tier = match event.storage_tier {
            StorageTier::Device => Tier::Device,
            StorageTier::HostPinned => Tier::Host,
            StorageTier::Disk | StorageTier::External => Tier::Disk,
        };
        let (kind, applied) = match &event.event.data {
            EventData::Stored(stored) => {
                let block_hashes: Vec<_> = stored.blocks.iter().map(|block| block.block_hash).collect();
                let tokens_hashes: Vec<_> = stored.blocks.iter().map(|block| block.tokens_hash).collect();
                let (block_hashes, tokens_hashes) = (&block_hashes[..], &tokens_hashes[..]);
                let event = Event::Stored { parent: stored.parent_hash, block_hashes, tokens_hashes };
                ("stored", self.apply_one(target, tier, event))
            }
            EventData::Removed { block_hashes } => {
                ("removed", self.apply_one(target, tier, Event::Removed { block_hashes }))
            }
            EventData::Cleared => ("cleared", self.apply_one(target, tier, Event::Cleared)),
        };
        let status = match applied {
            Ok(()) => "ok",
            Err(EventError::ParentNotFound) => "parent_block_not_found",
            Err(EventError::BlockNotFound) => "block_not_found",
            Err(EventError::InvalidSequence) => "invalid_block",
            // The worker has just left the pool.
            Err(EventError::UnknownTarget) => return,
        };
        self.metrics.applied(kind, status);
    }

    /// Forgets what a rank has cached.
    pub(super) fn clear(&self, target: Target) {
        // A rank that is not there has nothing cached.
        let _ = self.apply_one(target, Tier::Device, Event::Cleared);
    }

    fn apply_one(&self, target: Target, tier: Tier, event: Event<'_>) -> Result<(), EventError> {
        self.with(|state, _| state.router.apply(target, tier, event))
    }
}

impl State {
    /// Tells those who have left the queue.
    fn admit(&mut self, now: Nanos) {
        loop {
            let mut admitted: Vec<_> = self.router.admissions().collect();
            let Some(last) = admitted.pop() else { return };
            // What the router has last looked at belongs to the last one.
            let seen = self.router.candidates().to_vec();
            let rest = admitted.into_iter().map(|admission| (admission, Vec::new()));
            for (admission, candidates) in rest.chain([(last, seen)]) {
                let placed = admission.outcome.and_then(|decision| self.placed(decision, candidates));
                let told = self.waiting.remove(&admission.id).map(|waits| waits.send(placed));
                if !matches!(told, Some(Ok(()))) {
                    // Nobody waits any more; it may not be booked at all.
                    let _ = self.router.free(now, admission.id);
                }
            }
        }
    }

    /// The worker of a decision.
    pub(super) fn placed(
        &self,
        decision: Decision,
        candidates: Vec<dynosim_router::Candidate>,
    ) -> Result<Placed, RouteError> {
        let worker = self.workers.get(&decision.target.worker).ok_or(RouteError::UnknownWorker)?;
        Ok(Placed { worker: Arc::clone(worker), decision, candidates })
    }
}

fn spec(worker: &Worker) -> WorkerSpec {
    WorkerSpec {
        worker: worker.id(),
        start_rank: worker.engine.start_rank,
        ranks: worker.engine.ranks,
        max_num_batched_tokens: worker.engine.max_num_batched_tokens,
        total_kv_blocks: worker.engine.total_kv_blocks,
        taints: Vec::new(),
    }
}
