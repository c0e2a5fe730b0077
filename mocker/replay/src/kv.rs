//! The KV router of a pool, in virtual time.
//!
//! It sees what a pass did to the KV cache when the pass has ended, or `event_lag` after that. What waits for that is
//! kept here until somebody asks for a choice.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dynosim_engine::{
    DecodeBatch, EngineConfig, KvEvent, KvEvents, Nanos, PrefillBatch, Role, SchedulerConfig, Step, Timing,
};
use dynosim_router::{
    Admission, ConfigError, Decision, Event, Explanation, Extras, PrefillEstimator, Request, RouteError, Router,
    Submitted, Target, Tier, WorkerSpec,
};
use dynosim_workload::Turn;

use crate::config::{KvRouting, Pool};
use crate::live::LiveId;
use crate::pools::Stage;

/// What the router is told of a worker that computes any number of tokens in a pass (as published).
const UNBOUNDED_BATCH_TOKENS: u64 = 10_000_000;

/// A change of a worker's cache that the router has not seen yet.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Late {
    visible: Nanos,
    /// Order of their making.
    number: u64,
    target: Target,
    change: Change,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Stored { parent: Option<u64>, hashes: Vec<u64> },
    Removed { hashes: Vec<u64> },
    Cleared,
}

/// A router and what it is about to see.
#[derive(Debug)]
pub(crate) struct KvRouter {
    router: Router,
    pub(crate) block_size: u32,
    sees_events: bool,
    /// It is told of blocks that output fills.
    pub(crate) tracks_output: bool,
    lag: Nanos,
    late: BinaryHeap<Reverse<Late>>,
    made: u64,
}

impl KvRouter {
    pub(crate) fn new(routing: &KvRouting, pool: &Pool, stage: Stage) -> Result<Self, ConfigError> {
        let config = stage.router_config(routing);
        let engine = &pool.engines[0];
        let (block_size, blocks) = capacity(engine);
        let sees_events = config.use_kv_events && stage != Stage::Decode;
        let tracks_output = config.router_track_output_blocks;
        // Two pools draw from streams of their own.
        let seed = routing.seed.wrapping_add(u64::from(stage == Stage::Decode));
        let (timing, capacity_tokens) = (engine.timing.clone(), engine.kv_capacity_tokens);
        let estimator = Box::new(EngineEstimate { timing, capacity_tokens, role: engine.role });
        let extras = Extras { policy: routing.policy.clone(), estimator: Some(estimator), ..Extras::default() };
        let mut router = Router::with(config, block_size, seed, extras)?;
        for worker in 0..pool.engines.len() as u64 {
            let spec = WorkerSpec {
                ranks: engine.dp_size,
                max_num_batched_tokens: Some(pool.max_num_batched_tokens.map_or(UNBOUNDED_BATCH_TOKENS, u64::from)),
                total_kv_blocks: Some(blocks),
                ..WorkerSpec::new(worker)
            };
            router.add_worker(Nanos::ZERO, spec);
        }
        let lag = routing.event_lag;
        Ok(Self { router, block_size, sees_events, tracks_output, lag, late: BinaryHeap::new(), made: 0 })
    }

    /// It wants to know of changes of the KV cache.
    pub(crate) fn sees_events(&self) -> bool {
        self.sees_events
    }

    /// Requests wait in its queue: an end may let some of them go.
    pub(crate) fn has_waiting(&self) -> bool {
        self.router.waiting().requests > 0
    }

    /// What a step did to the cache of a worker of the pool.
    pub(crate) fn learn(&mut self, now: Nanos, worker: u32, step: &Step) {
        for (rank, pass) in (0..).zip(&step.ranks) {
            let target = Target { worker: worker.into(), rank };
            let KvEvents { items, hashes, passes, .. } = &pass.events;
            for (item, &pass) in items.iter().zip(passes) {
                let of = |start: u32, len: u32| &hashes[start as usize..(start + len) as usize];
                let event = match *item {
                    KvEvent::Stored { parent, start, len, .. } => {
                        let hashes = of(start, len);
                        Event::Stored { parent, block_hashes: hashes, tokens_hashes: hashes }
                    }
                    KvEvent::Removed { start, len } => Event::Removed { block_hashes: of(start, len) },
                    KvEvent::Cleared => Event::Cleared,
                };
                let ended = step.ends.get(pass as usize).copied().unwrap_or(step.start);
                self.see(now, ended + self.lag, target, event);
            }
        }
    }

    fn see(&mut self, now: Nanos, visible: Nanos, target: Target, event: Event<'_>) {
        if visible <= now && self.late.is_empty() {
            // Unknown parents and blocks are skipped, as routers do.
            let _ = self.router.apply(target, Tier::Device, event);
            return;
        }
        let change = match event {
            Event::Stored { parent, block_hashes, .. } => Change::Stored { parent, hashes: block_hashes.to_vec() },
            Event::Removed { block_hashes } => Change::Removed { hashes: block_hashes.to_vec() },
            Event::Cleared => Change::Cleared,
        };
        self.late.push(Reverse(Late { visible, number: self.made, target, change }));
        self.made += 1;
    }

    /// Lets the router see what is visible by now.
    pub(crate) fn catch_up(&mut self, now: Nanos) {
        while self.late.peek().is_some_and(|Reverse(late)| late.visible <= now) {
            let Some(Reverse(Late { target, change, .. })) = self.late.pop() else { return };
            let event = match &change {
                Change::Stored { parent, hashes } => {
                    Event::Stored { parent: *parent, block_hashes: hashes, tokens_hashes: hashes }
                }
                Change::Removed { hashes } => Event::Removed { block_hashes: hashes },
                Change::Cleared => Event::Cleared,
            };
            let _ = self.router.apply(target, Tier::Device, event);
        }
    }

    /// Chooses a worker for a request; none if it has to wait.
    pub(crate) fn submit(
        &mut self,
        now: Nanos,
        id: LiveId,
        turn: &Turn,
        hashes: &[u64],
        class: Option<&str>,
    ) -> Result<Option<Decision>, RouteError> {
        // The hashes of a planned output may follow those of the prompt.
        let full = (turn.input_tokens / self.block_size) as usize;
        let prompt = &hashes[..full.min(hashes.len())];
        // Without the blocks of open requests, costs come from prompts alone.
        let held = if self.router.config().router_track_active_blocks { prompt } else { &[] };
        let request = Request {
            priority_jump: f64::from(turn.priority.max(0)),
            strict_priority: turn.strict_priority,
            policy_class: class,
            ..Request::new(turn.input_tokens, prompt, held)
        };
        match self.router.submit(now, id.0.into(), &request)? {
            Submitted::Admitted(decision) => Ok(Some(decision)),
            Submitted::Waiting => Ok(None),
        }
    }

    /// The first token of a request has been made.
    pub(crate) fn prefill_complete(&mut self, now: Nanos, id: LiveId) {
        let told = self.router.prefill_complete(now, id.0.into());
        debug_assert!(told.is_ok(), "{told:?}");
    }

    /// Output has filled so many more blocks.
    pub(crate) fn output_blocks(&mut self, id: LiveId, blocks: u32) {
        for _ in 0..blocks {
            let told = self.router.add_output_block(id.0.into(), None);
            debug_assert!(told.is_ok(), "{told:?}");
        }
    }

    /// A request has ended.
    pub(crate) fn free(&mut self, now: Nanos, id: LiveId) {
        let told = self.router.free(now, id.0.into());
        debug_assert!(told.is_ok(), "{told:?}");
    }

    /// Those that have left the queue.
    pub(crate) fn admitted(&mut self) -> impl Iterator<Item = Admission> + '_ {
        self.router.admissions()
    }

    /// The choice for a request is to be explained.
    pub(crate) fn watch(&mut self, id: LiveId) {
        self.router.watch(id.0.into());
    }

    /// The cost of every worker at that choice.
    pub(crate) fn take_explanation(&mut self) -> Option<Explanation> {
        self.router.take_explanation()
    }
}

/// Block size, and blocks of a rank.
fn capacity(engine: &EngineConfig) -> (u32, u64) {
    match &engine.scheduler {
        // vLLM's null block does not count.
        SchedulerConfig::Vllm(config) => (config.block_size, config.num_gpu_blocks.saturating_sub(1).into()),
        SchedulerConfig::Sglang(config) => (config.page_size, config.capacity_tokens / u64::from(config.page_size)),
    }
}

/// How long a prompt takes by the engine's own timing model, alone in a pass.
#[derive(Debug)]
struct EngineEstimate {
    timing: Timing,
    capacity_tokens: u64,
    role: Role,
}

impl PrefillEstimator for EngineEstimate {
    fn duration(&mut self, new_tokens: u32, cached_tokens: u32) -> Nanos {
        let prefill =
            PrefillBatch { requests: 1, prefix_tokens: u64::from(cached_tokens), new_tokens: u64::from(new_tokens) };
        self.timing.pass(self.role, prefill, DecodeBatch::default(), self.capacity_tokens)
    }
}
