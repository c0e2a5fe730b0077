//! Requests that wait until a rank is not busy.
//!
//! Larger (strict priority, key) first, then by arrival. The head blocks what is behind it. With policy classes there is a
//! queue for each, served in turns by deficit round robin.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use dynosim_engine::Nanos;
use rustc_hash::FxHashSet;

use crate::config::{QueuePolicy, RouterConfig};
use crate::policy::PolicyConfig;
use crate::request::{Kept, Request};

/// When a rank is busy: its active prompt tokens are more than this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Busy {
    /// A share of its token budget. A rank without one is never busy.
    Share(f64),
    /// A number of tokens.
    Tokens(u64),
}

impl Busy {
    #[inline]
    pub(crate) fn is(self, active_prefill_tokens: u64, budget: Option<u64>) -> bool {
        match self {
            Self::Share(share) => budget.is_some_and(|budget| active_prefill_tokens as f64 > share * budget as f64),
            Self::Tokens(tokens) => active_prefill_tokens > tokens,
        }
    }
}

/// A waiting request.
#[derive(Debug)]
pub(crate) struct Entry {
    strict_priority: u32,
    key: f64,
    number: u64,
    pub(crate) id: u64,
    /// Uncached tokens on arrival, on the rank that had the most.
    uncached: u64,
    tokens: u32,
    pub(crate) kept: Kept,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_priority = self.strict_priority.cmp(&other.strict_priority);
        by_priority.then(self.key.total_cmp(&other.key)).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

#[derive(Debug)]
struct Class {
    order: QueuePolicy,
    busy: Busy,
    limit_per_worker: Option<u64>,
    quantum: u64,
    /// Tokens that it may still send in its turn.
    deficit: u64,
    entries: BinaryHeap<Entry>,
}

/// How a head of a queue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// A rank is free for it.
    Open,
    /// All its ranks are busy.
    Shut,
    /// It has no ranks any more.
    Gone,
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Waiting {
    /// Requests.
    pub requests: u64,
    /// Their prompt tokens.
    pub tokens: u64,
}

/// All queues of a router.
#[derive(Debug)]
pub(crate) struct Queue {
    classes: Vec<Class>,
    policy: Option<PolicyConfig>,
    /// Whose turn it is,
    turn: usize,
    /// and whether it has got its quantum.
    granted: bool,
    number: u64,
    ids: FxHashSet<u64>,
    waiting: Waiting,
}

impl Queue {
    /// The queues that are wanted; none if requests never wait.
    pub(crate) fn new(config: &RouterConfig, policy: Option<PolicyConfig>) -> Option<Self> {
        let class = |order, busy, quantum, limit_per_worker| Class {
            order,
            busy,
            limit_per_worker,
            quantum,
            deficit: 0,
            entries: BinaryHeap::new(),
        };
        let classes: Vec<_> = match &policy {
            Some(policy) => policy
                .policy_classes
                .iter()
                .map(|part| {
                    let share = part.prefill_busy_threshold_frac.map(Busy::Share);
                    let busy = part.prefill_busy_threshold.map(Busy::Tokens).or(share).unwrap_or(Busy::Share(1.0));
                    class(part.queue_policy, busy, part.quantum, part.request_queue_limit_per_worker)
                })
                .collect(),
            // A single queue always has its turn.
            None => {
                vec![class(config.router_queue_policy, Busy::Share(config.router_queue_threshold?), u64::MAX, None)]
            }
        };
        let (ids, waiting) = (FxHashSet::default(), Waiting::default());
        Some(Self { classes, policy, turn: 0, granted: false, number: 0, ids, waiting })
    }

    /// Whether workers must tell their token budget.
    pub(crate) fn needs_budget(&self) -> bool {
        self.classes.iter().any(|class| matches!(class.busy, Busy::Share(_)))
    }

    /// The class of a request.
    pub(crate) fn class(&self, request: &Request<'_>, uncached: u64) -> usize {
        self.policy.as_ref().map_or(0, |policy| policy.class(request.policy_class, uncached))
    }

    pub(crate) fn busy(&self, class: usize) -> Busy {
        self.classes[class].busy
    }

    pub(crate) fn is_empty(&self, class: usize) -> bool {
        self.classes[class].entries.is_empty()
    }

    pub(crate) fn waiting(&self) -> Waiting {
        self.waiting
    }

    pub(crate) fn has(&self, id: u64) -> bool {
        self.ids.contains(&id)
    }

    /// Whether a class takes no more requests.
    pub(crate) fn is_full(&self, class: usize, workers: u64) -> bool {
        let class = &self.classes[class];
        class.limit_per_worker.is_some_and(|limit| class.entries.len() as u64 >= limit.saturating_mul(workers))
    }

    /// A request waits. Its key is fixed now.
    pub(crate) fn push(&mut self, now: Nanos, id: u64, class: usize, request: &Request<'_>, uncached: u64) {
        let jump = request.priority_jump.max(0.0);
        let key = match self.classes[class].order {
            QueuePolicy::Fcfs => jump - now.as_secs(),
            QueuePolicy::Lcfs => jump + now.as_secs(),
            QueuePolicy::Wspt => (1.0 + jump) / uncached.max(1) as f64,
        };
        self.number += 1;
        self.ids.insert(id);
        self.waiting.requests += 1;
        self.waiting.tokens += u64::from(request.tokens);
        self.classes[class].entries.push(Entry {
            strict_priority: request.strict_priority,
            key,
            number: self.number,
            id,
            uncached,
            tokens: request.tokens,
            kept: Kept::new(request),
        });
    }

    /// Takes a request out before its turn.
    pub(crate) fn remove(&mut self, id: u64) -> bool {
        if !self.ids.remove(&id) {
            return false;
        }
        for class in &mut self.classes {
            let waiting = &mut self.waiting;
            class.entries.retain(|entry| {
                if entry.id == id {
                    waiting.requests -= 1;
                    waiting.tokens -= u64::from(entry.tokens);
                }
                entry.id != id
            });
        }
        true
    }

    /// Takes the next request whose way is open or gone. `gate` is asked about heads only.
    pub(crate) fn pop(&mut self, mut gate: impl FnMut(&Request<'_>, Busy) -> Gate) -> Option<Entry> {
        let mut shut = 0;
        while shut < self.classes.len() {
            let class = &mut self.classes[self.turn];
            let head = class.entries.peek().map(|head| (gate(&head.kept.request(), class.busy), head.uncached.max(1)));
            match head {
                None => {
                    class.deficit = 0;
                    shut += 1;
                }
                Some((Gate::Gone, _)) => return self.take(),
                Some((Gate::Shut, _)) => shut += 1,
                Some((Gate::Open, cost)) => {
                    shut = 0;
                    if !std::mem::replace(&mut self.granted, true) {
                        class.deficit = class.deficit.saturating_add(class.quantum);
                    }
                    if cost <= class.deficit {
                        class.deficit -= cost;
                        return self.take();
                    }
                }
            }
            self.turn = (self.turn + 1) % self.classes.len();
            self.granted = false;
        }
        None
    }

    fn take(&mut self) -> Option<Entry> {
        let entry = self.classes[self.turn].entries.pop()?;
        self.ids.remove(&entry.id);
        self.waiting.requests -= 1;
        self.waiting.tokens -= u64::from(entry.tokens);
        Some(entry)
    }
}
