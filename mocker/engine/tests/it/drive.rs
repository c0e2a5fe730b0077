//! Random engines and requests, and a small event loop that writes down what an engine does.

use std::collections::BTreeMap;

use dynosim_engine::kv::Eviction;
use dynosim_engine::pass::KvEvent;
use dynosim_engine::vllm::{Capacity, Policy, Preemption};
use dynosim_engine::{
    BlockHashes, Engine, EngineConfig, Horizon, Nanos, Request, Role, SchedulerConfig, Step, Ticket, Timing, hash,
    sglang, vllm,
};
use proptest::prelude::*;

/// A request, when it comes, and when its client gives up.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) arrival: Nanos,
    pub(crate) abort: Option<Nanos>,
    pub(crate) request: Request,
}

/// One thing that happened: when, what, to whom (number of the visit, or a block hash).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Entry {
    Rejected(usize),
    Admitted(usize, u32),
    Preempted(usize),
    Token(usize),
    Finished(usize),
    Aborted(usize),
    Stored(u64),
    Removed(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) entries: Vec<(Nanos, Entry)>,
    /// Requests left when nothing could happen any more.
    pub(crate) stuck: usize,
    pub(crate) active_blocks_at_end: u32,
}

impl Log {
    /// Where two logs part. What happened at one instant has no order: a client gives up in the middle of a run, which
    /// is written down when it ends.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let sorted = |log: &Self| {
            let mut entries = log.entries.clone();
            entries.sort_unstable();
            entries
        };
        let (own, others) = (sorted(self), sorted(other));
        let length = own.len().max(others.len());
        let at = (0..length).find(|&at| own.get(at) != others.get(at));
        let parts = at.map(|at| format!("entry {at}: {:?}, {:?}", own.get(at), others.get(at)));
        let ends = |log: &Self| (log.stuck, log.active_blocks_at_end);
        parts.or_else(|| (ends(self) != ends(other)).then(|| "the ends".to_owned()))
    }

    pub(crate) fn tokens_of(&self, visit: usize) -> Vec<Nanos> {
        self.entries.iter().filter(|(_, entry)| *entry == Entry::Token(visit)).map(|(time, _)| *time).collect()
    }

    pub(crate) fn has(&self, wanted: Entry) -> bool {
        self.entries.iter().any(|(_, entry)| *entry == wanted)
    }
}

/// Far more than any run here needs: an engine that goes on longer makes no progress.
const ENTRIES_MAX: usize = 500_000;

/// Runs all visits through a new engine.
pub(crate) fn drive(config: &EngineConfig, visits: &[Visit], horizon: Horizon) -> Log {
    drive_watched(config, visits, horizon, &[])
}

/// The same, where somebody wants to know at some times what has happened by then.
pub(crate) fn drive_watched(config: &EngineConfig, visits: &[Visit], horizon: Horizon, looks: &[Nanos]) -> Log {
    let mut looks = looks.iter().copied().peekable();
    let mut engine = Engine::new(config.clone());
    let mut log = Log::default();
    let mut present: BTreeMap<Ticket, usize> = BTreeMap::new();
    let mut due: Vec<(Nanos, bool, usize)> = Vec::new();
    for (index, visit) in visits.iter().enumerate() {
        due.push((visit.arrival, false, index));
        due.extend(visit.abort.map(|at| (at.max(visit.arrival), true, index)));
    }
    due.sort_unstable();
    let mut due = due.into_iter().peekable();
    let mut idle_starts = 0;
    loop {
        let next = engine.busy_until().into_iter().chain(due.peek().map(|&(at, ..)| at)).min();
        let Some(next) = next else { break };
        let now = looks.peek().map_or(next, |&look| look.min(next));
        assert!(log.entries.len() < ENTRIES_MAX, "the engine does not come to an end");
        if engine.busy_until() == Some(now) {
            let step = engine.finish().clone();
            write_down(&step, &mut present, &mut log);
        }
        while looks.next_if(|&look| look <= now).is_some() {
            if let Some(step) = engine.settle(now) {
                let step = step.clone();
                assert!(step.end() <= now && engine.busy_until().is_none_or(|end| end > now));
                write_down(&step, &mut present, &mut log);
            }
        }
        while let Some((_, abort, index)) = due.next_if(|&(at, ..)| at <= now) {
            if abort {
                let ticket = present.iter().find(|&(_, &visit)| visit == index).map(|(&ticket, _)| ticket);
                if let Some(ticket) = ticket
                    && engine.abort(now, ticket)
                {
                    log.entries.push((now, Entry::Aborted(index)));
                    // What it still gets with the pass in progress goes nowhere, as with a closed connection.
                }
            } else {
                let request = visits[index].request.clone();
                if engine.check(request.prompt_tokens, request.max_output_tokens).is_err() {
                    log.entries.push((now, Entry::Rejected(index)));
                    continue;
                }
                let ticket = engine.submit(now, None, request);
                present.insert(ticket, index);
            }
        }
        if engine.busy_until().is_none() {
            idle_starts = if engine.start(now, horizon).is_none() { idle_starts + 1 } else { 0 };
            assert!(idle_starts < 10_000, "the engine spins");
        }
    }
    log.stuck = engine.unfinished();
    log.active_blocks_at_end = engine.active_blocks();
    log
}

fn write_down(step: &Step, present: &mut BTreeMap<Ticket, usize>, log: &mut Log) {
    for (rank, pass) in step.ranks.iter().enumerate() {
        let visit = |request| present[&Ticket { rank: rank as u32, request }];
        let end = step.end();
        let first_end = step.ends.first().copied().unwrap_or(end);
        log.entries.extend(pass.preempted.iter().map(|&id| (first_end, Entry::Preempted(visit(id)))));
        for admission in &pass.admitted {
            log.entries.push((first_end, Entry::Admitted(visit(admission.request), admission.cached_tokens)));
        }
        for &end in &step.ends {
            for emission in &pass.emitted {
                let times = emission.tokens as usize;
                log.entries.extend(std::iter::repeat_n((end, Entry::Token(visit(emission.request))), times));
            }
        }
        for (event, &at) in pass.events.items.iter().zip(&pass.events.passes) {
            let end = step.ends.get(at as usize).copied().unwrap_or(end);
            let (entry, start, len): (fn(u64) -> Entry, _, _) = match *event {
                KvEvent::Stored { start, len, .. } => (Entry::Stored, start, len),
                KvEvent::Removed { start, len } => (Entry::Removed, start, len),
                KvEvent::Cleared => continue,
            };
            let hashes = &pass.events.hashes[start as usize..(start + len) as usize];
            log.entries.extend(hashes.iter().map(|&hash| (end, entry(hash))));
        }
        log.entries.extend(pass.finished.iter().map(|&id| (end, Entry::Finished(visit(id)))));
    }
    for (rank, pass) in step.ranks.iter().enumerate() {
        for &request in &pass.finished {
            present.remove(&Ticket { rank: rank as u32, request });
        }
    }
}

/// Arrival, abort after, prompt, output, family, tokens shared with the family, priority.
type RawVisit = (u64, Option<u64>, u32, u32, u64, u32, i32);

/// Requests in a few families that share prefixes, for blocks of `block_size` tokens.
pub(crate) fn visits(block_size: u32, aborts: bool) -> impl Strategy<Value = Vec<Visit>> {
    let visit = (
        0..400_000_000u64,
        proptest::option::weighted(0.3, 0..300_000_000u64),
        1..120u32,
        1..50u32,
        0..4u64,
        0..120u32,
        -2..3i32,
    );
    proptest::collection::vec(visit, 1..24).prop_map(move |raw| {
        let make = |(index, raw): (usize, RawVisit)| {
            let (at, abort, prompt, output, family, shared, priority) = raw;
            let hashes = (0..prompt / block_size).map(|block| {
                let own = if (block + 1) * block_size <= shared { 0 } else { 1 + index as u64 };
                hash::mix(family, u64::from(block)) ^ hash::mix(own, 77)
            });
            let hashes = BlockHashes { known: hashes.collect(), salt: 1000 + index as u64 };
            Visit {
                arrival: Nanos(at),
                abort: abort.filter(|_| aborts).map(|after| Nanos(at + after)),
                request: Request {
                    prompt_tokens: prompt,
                    max_output_tokens: output,
                    priority,
                    ignore_eos: true,
                    hashes,
                },
            }
        };
        raw.into_iter().enumerate().map(make).collect()
    })
}

fn vllm_config() -> impl Strategy<Value = vllm::Config> {
    let sizes = (6..60u32, prop_oneof![Just(1u32), Just(2), Just(4), Just(16)], 1..12u32, 2..80u32);
    let limits = (proptest::option::weighted(0.3, 20..200u32), any::<bool>(), any::<bool>(), 0..20u32, any::<bool>());
    let policies = (
        prop_oneof![Just(Policy::Fcfs), Just(Policy::Priority)],
        prop_oneof![Just(Preemption::Lifo), Just(Preemption::Fifo)],
        prop_oneof![3 => Just(Capacity::AsNeeded), 1 => Just(Capacity::GuaranteedNoEvict)],
        prop_oneof![Just(Eviction::Lineage), Just(Eviction::Lru), Just(Eviction::MultiLru)],
        1..4u32,
        prop_oneof![Just(0.0), Just(0.1)],
    );
    (sizes, limits, policies).prop_map(|(sizes, limits, policies)| vllm::Config {
        num_gpu_blocks: sizes.0 * (1 + 16 / sizes.1),
        block_size: sizes.1,
        max_num_seqs: Some(sizes.2),
        max_num_batched_tokens: Some(sizes.3),
        max_model_len: limits.0,
        enable_prefix_caching: limits.1,
        enable_chunked_prefill: limits.2,
        long_prefill_token_threshold: limits.3,
        scheduler_reserve_full_isl: limits.4,
        policy: policies.0,
        preemption: policies.1,
        capacity: policies.2,
        eviction: policies.3,
        prefill_schedule_interval: policies.4,
        watermark: policies.5,
        ..vllm::Config::default()
    })
}

fn sglang_config() -> impl Strategy<Value = sglang::Config> {
    let sizes = (200..900u64, prop_oneof![Just(1u32), Just(4), Just(16)], 1..12u32, 16..200u32, 16..200u32);
    let policy = prop_oneof![
        Just(sglang::QueuePolicy::Fcfs),
        Just(sglang::QueuePolicy::Lpm),
        Just(sglang::QueuePolicy::DfsWeight)
    ];
    (sizes, policy, any::<bool>(), 0.05..1.0f64).prop_map(|(sizes, policy, radix_cache, conservativeness)| {
        sglang::Config {
            page_size: sizes.1,
            capacity_tokens: sizes.0,
            radix_cache,
            policy,
            max_running_requests: Some(sizes.2),
            max_prefill_tokens: sizes.3,
            chunked_prefill_size: Some(sizes.4.next_multiple_of(sizes.1)),
            schedule_conservativeness: conservativeness,
            ..sglang::Config::default()
        }
    })
}

/// Any engine of one rank that decides all by itself, and visits that fit its blocks.
pub(crate) fn engine_and_visits(aborts: bool) -> impl Strategy<Value = (EngineConfig, Vec<Visit>)> {
    let scheduler =
        prop_oneof![vllm_config().prop_map(SchedulerConfig::Vllm), sglang_config().prop_map(SchedulerConfig::Sglang)];
    scheduler.prop_flat_map(move |scheduler| {
        let (block_size, tokens) = match &scheduler {
            SchedulerConfig::Vllm(config) => (config.block_size, u64::from(config.num_gpu_blocks * config.block_size)),
            SchedulerConfig::Sglang(config) => (config.page_size, config.capacity_tokens),
        };
        (Just(engine(scheduler, tokens)), visits(block_size, aborts))
    })
}

pub(crate) fn engine(scheduler: SchedulerConfig, kv_capacity_tokens: u64) -> EngineConfig {
    EngineConfig {
        scheduler,
        dp_size: 1,
        timing: Timing::default(),
        kv_capacity_tokens,
        role: Role::Aggregated,
        emit_kv_events: true,
    }
}
