//! Small systems and workloads.

use std::borrow::Cow;

use dynosim_engine::timing::Fixed;
use dynosim_engine::{
    EngineConfig, Horizon, KvTransfer, Nanos, Role, SchedulerConfig, Timing, TimingModel, TransferMode, sglang, vllm,
};
use dynosim_replay::{Admission, Fleet, KvRouting, Outcome, Pool, ReplayConfig, Routing, Sla, replay};
use dynosim_router::RouterConfig;
use dynosim_workload::{Turn, Workload, WorkloadError};
use proptest::prelude::*;
use serde_json::Value;

pub(crate) const PAGE: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Vllm,
    Sglang,
}

/// An engine whose passes take 10 ms for prompts and 2 ms for output.
pub(crate) fn engine(kind: Kind, role: Role, blocks: u32) -> EngineConfig {
    let scheduler = match kind {
        Kind::Vllm => SchedulerConfig::Vllm(vllm::Config {
            num_gpu_blocks: blocks,
            block_size: PAGE,
            role,
            ..vllm::Config::default()
        }),
        Kind::Sglang => SchedulerConfig::Sglang(sglang::Config {
            page_size: PAGE,
            capacity_tokens: u64::from(blocks * PAGE),
            role,
            ..sglang::Config::default()
        }),
    };
    EngineConfig {
        scheduler,
        dp_size: 1,
        timing: Timing::new(TimingModel::Fixed(Fixed { prefill_ms: 10.0, decode_ms: 2.0 }), 1.0, 1.0),
        kv_capacity_tokens: u64::from(blocks * PAGE),
        role,
        emit_kv_events: false,
    }
}

pub(crate) fn pool(engine: &EngineConfig, workers: usize) -> Pool {
    Pool {
        engines: vec![engine.clone(); workers],
        max_num_batched_tokens: Some(8192),
        gpus_per_worker: 1,
        startup: Nanos::ZERO,
    }
}

/// A link that takes 50 µs per token.
pub(crate) fn link(mode: TransferMode) -> KvTransfer {
    KvTransfer { bytes_per_token: Some(50_000), bandwidth_gb_s: Some(1.0), mode }
}

pub(crate) fn aggregated(kind: Kind, workers: usize, blocks: u32) -> Fleet {
    Fleet::Aggregated(pool(&engine(kind, Role::Aggregated, blocks), workers))
}

/// Pools of so many workers with so many blocks, prefill first.
pub(crate) fn disaggregated(kind: Kind, mode: TransferMode, workers: (usize, usize), blocks: (u32, u32)) -> Fleet {
    Fleet::Disaggregated {
        prefill: pool(&engine(kind, Role::Prefill, blocks.0), workers.0),
        decode: pool(&engine(kind, Role::Decode, blocks.1), workers.1),
        transfer: link(mode),
    }
}

pub(crate) fn kv(change: impl FnOnce(&mut RouterConfig)) -> Routing {
    let mut config = RouterConfig::default();
    change(&mut config);
    Routing::Kv(Box::new(KvRouting { config, policy: None, seed: 1, event_lag: Nanos::ZERO }))
}

pub(crate) fn config(fleet: Fleet, routing: Routing) -> ReplayConfig {
    ReplayConfig {
        fleet,
        routing,
        admission: Admission::Schedule,
        end: None,
        sla: Sla::default(),
        records: true,
        kv_eviction_policy: "lineage",
        reasoning: None,
        horizon: Horizon::Run,
        explain: None,
    }
}

/// A request and when it comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub(crate) at: Nanos,
    /// Prompts of a group are equal as far as they go.
    pub(crate) group: u64,
    pub(crate) prompt_tokens: u32,
    pub(crate) output_tokens: u32,
}

pub(crate) fn visit(at_ms: f64, group: u64, prompt_tokens: u32, output_tokens: u32) -> Visit {
    Visit { at: Nanos::from_ms(at_ms), group, prompt_tokens, output_tokens }
}

/// Visits in the order of their times.
pub(crate) fn visits() -> impl Strategy<Value = Vec<Visit>> {
    // Tenths of milliseconds, so that some come just when a step ends.
    let drawn = (0..4000u32, 0..4u64, 1..150u32, 1..60u32);
    prop::collection::vec(drawn, 1..40).prop_map(|mut drawn| {
        drawn.sort_unstable();
        drawn
            .into_iter()
            .map(|(at, group, prompt, output)| visit(f64::from(at) / 10.0, group, prompt, output))
            .collect()
    })
}

/// Visits as a workload.
struct List<'v> {
    visits: &'v [Visit],
    taken: usize,
}

impl Workload for List<'_> {
    fn peek(&mut self) -> Result<Option<Nanos>, WorkloadError> {
        Ok(self.visits.get(self.taken).map(|visit| visit.at))
    }

    fn take(&mut self, hashes: &mut Vec<u64>) -> Result<Option<Turn>, WorkloadError> {
        let Some(visit) = self.visits.get(self.taken) else { return Ok(None) };
        let number = self.taken as u32;
        self.taken += 1;
        hashes.clear();
        hashes.extend((0..u64::from(visit.prompt_tokens / PAGE)).map(|block| visit.group * 1_000_000 + block));
        Ok(Some(Turn {
            session: number,
            row: number.into(),
            input_tokens: visit.prompt_tokens,
            output_tokens: visit.output_tokens,
            ..Turn::default()
        }))
    }

    fn next_delay(&mut self, _turn: &Turn) -> Option<Nanos> {
        None
    }

    fn take_next(&mut self, session: u32, _hashes: &mut Vec<u64>) -> Result<Turn, WorkloadError> {
        Err(WorkloadError::NoTurn { session })
    }

    fn total_requests(&self) -> u64 {
        self.visits.len() as u64
    }

    fn total_sessions(&self) -> u64 {
        self.visits.len() as u64
    }

    fn session_name(&self, session: u32) -> Cow<'_, str> {
        session.to_string().into()
    }
}

#[allow(clippy::needless_pass_by_value, reason = "callers make it for one run")]
pub(crate) fn run(config: ReplayConfig, visits: &[Visit]) -> Outcome {
    replay(&config, &mut List { visits, taken: 0 }, 1, &mut |_| {}).expect("a complete run")
}

/// Report and rows of a run, to be compared.
pub(crate) fn all_of(outcome: &Outcome) -> (Value, Value, u64) {
    let rows = serde_json::to_value(&outcome.records).expect("rows are JSON");
    (outcome.report.to_json(1.0), rows, outcome.digest)
}
