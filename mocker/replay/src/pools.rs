//! Pools: which of its workers gets a request.

use std::ops::Range;

use dynosim_engine::{EngineConfig, KvTransfer, Nanos, Rejection, SchedulerConfig};
use dynosim_router::ConfigError;

use crate::config::{Fleet, KvRouting, Pool, Routing};
use crate::events::{Event, Events};
use crate::kv::KvRouter;
use crate::workers::Workers;

/// What a pool does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Prefill and decode.
    Whole,
    /// Computes its prompt.
    Prefill,
    /// Makes its output.
    Decode,
}

/// Workers of one kind.
#[derive(Debug)]
pub(crate) struct PoolState {
    pub(crate) stage: Stage,
    /// Their numbers among all workers.
    pub(crate) workers: Range<u32>,
    /// Settings of one of them.
    engine: EngineConfig,
    /// Round robin: whose turn it is.
    next: u32,
    pub(crate) router: Option<Box<KvRouter>>,
}

/// Who takes a request first; follows from the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// vLLM: the prompt is computed, then the decode worker takes blocks for it.
    SourceFirst,
    /// `SGLang`: the decode worker takes blocks, then the prompt is computed.
    DestinationFirst,
}

/// How KV goes from pool to pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handoff {
    pub(crate) order: Order,
    pub(crate) transfer: KvTransfer,
    /// Tokens of a block at the decode workers.
    pub(crate) block_size: u32,
}

/// All pools: one, or a prefill and a decode pool, in the order of [`Pools::PREFILL`] and [`Pools::DECODE`].
#[derive(Debug)]
pub(crate) struct Pools {
    all: Vec<PoolState>,
    pub(crate) handoff: Option<Handoff>,
}

impl Pools {
    pub(crate) const PREFILL: usize = 0;
    pub(crate) const DECODE: usize = 1;

    /// Makes the workers and routers.
    pub(crate) fn new(
        fleet: Fleet,
        routing: &Routing,
        workers: &mut Workers,
        events: &mut Events,
    ) -> Result<Self, ConfigError> {
        let mut add = |pool, stage, place| PoolState::new(pool, stage, place, routing, workers, events);
        match fleet {
            Fleet::Aggregated(pool) => Ok(Self { all: vec![add(pool, Stage::Whole, 0)?], handoff: None }),
            Fleet::Disaggregated { prefill, decode, transfer } => {
                let handoff = Handoff::new(&decode.engines[0].scheduler, transfer);
                let prefill = add(prefill, Stage::Prefill, Self::PREFILL)?;
                let decode = add(decode, Stage::Decode, Self::DECODE)?;
                Ok(Self { all: vec![prefill, decode], handoff: Some(handoff) })
            }
        }
    }

    pub(crate) fn get(&self, pool: usize) -> &PoolState {
        &self.all[pool]
    }

    pub(crate) fn get_mut(&mut self, pool: usize) -> &mut PoolState {
        &mut self.all[pool]
    }

    /// Whether a request could ever run to its end.
    pub(crate) fn check(&self, prompt_tokens: u32, max_output_tokens: u32) -> Result<(), Rejection> {
        self.all.iter().try_for_each(|pool| pool.engine.check(prompt_tokens, max_output_tokens))
    }
}

impl PoolState {
    fn new(
        pool: Pool,
        stage: Stage,
        place: usize,
        routing: &Routing,
        workers: &mut Workers,
        events: &mut Events,
    ) -> Result<Self, ConfigError> {
        let first = workers.len() as u32;
        let router = match routing {
            Routing::RoundRobin => None,
            Routing::Kv(routing) => Some(Box::new(KvRouter::new(routing, &pool, stage)?)),
        };
        let engine = pool.engines[0].clone();
        let watched = router.as_ref().is_some_and(|router| router.sees_events());
        for mut engine in pool.engines {
            engine.emit_kv_events = watched;
            workers.add(engine, place, pool.startup == Nanos::ZERO);
        }
        let all = first..workers.len() as u32;
        if pool.startup > Nanos::ZERO {
            all.clone().for_each(|worker| events.push(pool.startup, Event::WorkerReady { worker }));
        }
        Ok(Self { stage, workers: all, engine, next: 0, router })
    }

    /// The next worker in turn.
    pub(crate) fn turn(&mut self) -> u32 {
        let turn = self.next;
        self.next = (turn + 1) % self.workers.len() as u32;
        self.workers.start + turn
    }
}

impl Handoff {
    fn new(destination: &SchedulerConfig, transfer: KvTransfer) -> Self {
        let (order, block_size) = match destination {
            SchedulerConfig::Vllm(config) => (Order::SourceFirst, config.block_size),
            SchedulerConfig::Sglang(config) => (Order::DestinationFirst, config.page_size),
        };
        Self { order, transfer, block_size }
    }
}

impl Stage {
    /// The router's keys for a pool of this kind.
    pub(crate) fn router_config(self, routing: &KvRouting) -> dynosim_router::RouterConfig {
        match self {
            Self::Whole => routing.config.clone(),
            Self::Prefill => routing.config.prefill_pool(),
            Self::Decode => routing.config.decode_pool(),
        }
    }
}
