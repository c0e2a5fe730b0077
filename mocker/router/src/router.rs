//! The router of one model: what drivers call.

mod book;
mod line;
mod select;

pub use select::Explanation;

use dynosim_engine::Nanos;
use rustc_hash::FxHashMap;

use crate::approx::Approximate;
use crate::choice::Choice;
use crate::config::{ConfigError, PrefillLoadModel, RouterConfig};
use crate::cost::{Candidate, Rules};
use crate::event::{Event, EventError, Target, Tier};
use crate::index::{Found, HeldBlock, Index, IndexSize, Slot};
use crate::load::{Booking, Loads, PrefillEstimator, Sharing};
use crate::lower::Lower;
use crate::policy::PolicyConfig;
use crate::queue::{Queue, Waiting};
use crate::request::{Admission, Kept, RouteError};
use crate::session::Sessions;
use crate::workers::{Lifecycle, WorkerSpec, Workers};

/// What a router may have beside its settings.
#[derive(Default)]
pub struct Extras {
    /// Content of the policy file.
    pub policy: Option<PolicyConfig>,
    /// How long a session stays bound after its last reservation; none: sessions are not looked at.
    pub session_ttl: Option<Nanos>,
    /// How long prompts take, for `router_prefill_load_model` `aic`.
    pub estimator: Option<Box<dyn PrefillEstimator>>,
}

/// A choice that may be booked later.
#[derive(Debug)]
struct Selection {
    slot: Slot,
    decision: crate::request::Decision,
    kept: Kept,
}

/// What a choice is worked out in; kept so that choosing allocates nothing.
#[derive(Debug, Default)]
struct Scratch {
    device: Found,
    predicted: Found,
    shared: Found,
    candidates: Vec<Candidate>,
}

/// Routes the requests of one model over its workers.
///
/// Every call that needs it is given the time, which never runs backwards. Equal calls give equal answers.
pub struct Router {
    config: RouterConfig,
    rules: Rules,
    workers: Workers,
    index: Index,
    /// Host and disk, by slot.
    lower: Vec<[Lower; 2]>,
    /// What was sent where: the whole index without events, or beside it.
    sent: Option<Approximate>,
    loads: Loads,
    open: FxHashMap<u64, Booking>,
    selections: FxHashMap<u64, Selection>,
    sessions: Option<Sessions>,
    queue: Option<Queue>,
    admissions: Vec<Admission>,
    choice: Choice,
    estimator: Option<Box<dyn PrefillEstimator>>,
    scratch: Scratch,
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").field("config", &self.config).field("open", &self.open.len()).finish_non_exhaustive()
    }
}

impl Router {
    /// A router without workers. `block_size` is the tokens of a KV block, at least 1; `seed` decides what is left to chance.
    pub fn new(config: RouterConfig, block_size: u32, seed: u64) -> Result<Self, ConfigError> {
        Self::with(config, block_size, seed, Extras::default())
    }

    /// A router with more than settings.
    pub fn with(config: RouterConfig, block_size: u32, seed: u64, extras: Extras) -> Result<Self, ConfigError> {
        config.check()?;
        if block_size == 0 {
            return Err(ConfigError::Shape("the block size is 0, must be at least 1".to_owned()));
        }
        let timed = config.router_prefill_load_model == PrefillLoadModel::Aic;
        if timed && extras.estimator.is_none() {
            let allowed = "none where no estimator of durations is given";
            return Err(ConfigError::Range { key: "router_prefill_load_model", value: "aic".to_owned(), allowed });
        }
        if let (Some(path), None) = (&config.router_policy_config, &extras.policy) {
            let allowed = "unset where the content of the file is not given";
            return Err(ConfigError::Range { key: "router_policy_config", value: path.clone(), allowed });
        }
        let ttl = if config.use_kv_events { config.router_predicted_ttl_secs } else { Some(config.router_ttl_secs) };
        let sharing = if config.router_assume_kv_reuse { Sharing::Shared } else { Sharing::Apart };
        Ok(Self {
            rules: Rules::new(&config, block_size),
            workers: Workers::default(),
            index: Index::default(),
            lower: Vec::new(),
            sent: ttl.map(|seconds| Approximate::new(Nanos::from_secs(seconds))),
            loads: Loads::new(sharing),
            open: FxHashMap::default(),
            selections: FxHashMap::default(),
            sessions: extras.session_ttl.map(Sessions::new),
            queue: Queue::new(&config, extras.policy),
            admissions: Vec::new(),
            choice: Choice::new(config.router_temperature, seed),
            estimator: extras.estimator.filter(|_| timed),
            scratch: Scratch::default(),
            config,
        })
    }

    /// Its settings.
    pub fn config(&self) -> &RouterConfig {
        &self.config
    }

    /// A worker is there, or is another than before: ranks that stay keep index and load.
    pub fn add_worker(&mut self, now: Nanos, spec: WorkerSpec) -> Lifecycle {
        let needs_budget = self.queue.as_ref().is_some_and(Queue::needs_budget);
        let missing = needs_budget && spec.max_num_batched_tokens.is_none();
        let lifecycle = if missing { Lifecycle::Incomplete } else { Lifecycle::Schedulable };
        let change = self.workers.put(spec, lifecycle);
        self.close(now, &change.closed);
        for slot in change.opened {
            self.loads.open(slot);
            if self.lower.len() <= slot as usize {
                self.lower.resize_with(slot as usize + 1, Default::default);
            }
        }
        self.drain(now);
        lifecycle
    }

    /// A worker's labels are others.
    pub fn patch_taints(&mut self, worker: u64, taints: Vec<String>) -> Result<Lifecycle, RouteError> {
        self.workers.set_taints(worker, taints);
        self.workers.lifecycle(worker).ok_or(RouteError::UnknownWorker)
    }

    /// A worker is gone, with its blocks and requests.
    pub fn remove_worker(&mut self, now: Nanos, worker: u64) -> Result<(), RouteError> {
        let slots = self.workers.remove(worker).ok_or(RouteError::UnknownWorker)?;
        self.close(now, &slots);
        self.drain(now);
        Ok(())
    }

    fn close(&mut self, now: Nanos, slots: &[Slot]) {
        if slots.is_empty() {
            return;
        }
        let mut lost: Vec<u64> = Vec::new();
        lost.extend(self.open.iter().filter(|(_, booking)| slots.contains(&booking.slot)).map(|(&id, _)| id));
        lost.sort_unstable();
        for id in lost {
            if let Some(booking) = self.open.remove(&id) {
                self.loads.end(now, id, &booking);
            }
        }
        self.selections.retain(|_, selection| !slots.contains(&selection.slot));
        for &slot in slots {
            self.clear(slot);
            if let Some(sent) = &mut self.sent {
                sent.cleared(slot);
            }
            if let Some(sessions) = &mut self.sessions {
                sessions.forget(slot);
            }
        }
    }

    fn clear(&mut self, slot: Slot) {
        self.index.cleared(slot);
        self.lower[slot as usize].iter_mut().for_each(Lower::cleared);
    }

    /// A rank's cache has changed. Ids and times of events carry no order: they are applied as they come. Without
    /// `use_kv_events` they are not looked at.
    pub fn apply(&mut self, target: Target, tier: Tier, event: Event<'_>) -> Result<(), EventError> {
        let slot = self.workers.slot(target).ok_or(EventError::UnknownTarget)?;
        if !self.config.use_kv_events {
            return Ok(());
        }
        let lower = match tier {
            Tier::Device => None,
            Tier::Host => Some(0),
            Tier::Disk => Some(1),
        };
        match (event, lower) {
            (Event::Stored { parent, block_hashes, tokens_hashes }, None) => {
                self.index.stored(slot, parent, tokens_hashes, block_hashes)
            }
            (Event::Stored { parent, block_hashes, tokens_hashes }, Some(tier)) => {
                self.lower[slot as usize][tier].stored(parent, tokens_hashes, block_hashes)
            }
            (Event::Removed { block_hashes }, None) => self.index.removed(slot, block_hashes),
            (Event::Removed { block_hashes }, Some(tier)) => self.lower[slot as usize][tier].removed(block_hashes),
            (Event::Cleared, _) => {
                self.clear(slot);
                Ok(())
            }
        }
    }

    /// How large the index of device blocks is.
    pub fn index_size(&self) -> IndexSize {
        match &self.sent {
            Some(sent) if !self.config.use_kv_events => sent.size(),
            _ => self.index.size(),
        }
    }

    /// Device blocks of a rank that prompts can be matched with, in no order; for recovery and comparison.
    pub fn held(&self, target: Target) -> Vec<HeldBlock> {
        self.workers.slot(target).map(|slot| self.index.held(slot)).unwrap_or_default()
    }

    /// How much waits.
    pub fn waiting(&self) -> Waiting {
        self.queue.as_ref().map(Queue::waiting).unwrap_or_default()
    }

    /// Requests that have left the queue since this was last asked, in order. Something may be there after any call that
    /// ends or computes a request, adds or removes a worker, or lets a request wait: a higher priority may go at once.
    pub fn admissions(&mut self) -> std::vec::Drain<'_, Admission> {
        self.admissions.drain(..)
    }

    /// Forgets what has been there for too long. Choices do so by themselves.
    pub fn expire(&mut self, now: Nanos) {
        if let Some(sent) = &mut self.sent {
            sent.expire(now);
        }
        if let Some(sessions) = &mut self.sessions {
            sessions.expire(now);
        }
    }
}
