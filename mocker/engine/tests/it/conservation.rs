//! Nothing is lost and nothing comes from nowhere: requests, tokens, blocks, time.

use std::collections::BTreeMap;

use dynosim_engine::kv::BlockId;
use dynosim_engine::pass::{Pass, Scheduler as _};
use dynosim_engine::vllm::Preemption;
use dynosim_engine::{EngineConfig, Horizon, RequestId, SchedulerConfig, vllm};
use proptest::prelude::*;

use crate::drive::{Entry, Log, Visit, drive, engine_and_visits};

/// Output tokens that a request must have made when it finished.
fn output_due(config: &EngineConfig, visit: &Visit) -> usize {
    let limit = match &config.scheduler {
        SchedulerConfig::Vllm(config) => config.max_model_len,
        SchedulerConfig::Sglang(config) => config.max_model_len,
    };
    let room = limit.map_or(u32::MAX, |limit| limit - visit.request.prompt_tokens);
    visit.request.max_output_tokens.min(room) as usize
}

fn check_requests(config: &EngineConfig, visits: &[Visit], log: &Log) -> Result<(), TestCaseError> {
    for (index, visit) in visits.iter().enumerate() {
        let tokens = log.tokens_of(index);
        let ends = [Entry::Rejected(index), Entry::Finished(index), Entry::Aborted(index)].map(|end| log.has(end));
        prop_assert_eq!(ends.iter().filter(|&&end| end).count(), 1, "request {} ends once: {:?}", index, ends);
        if ends[0] {
            prop_assert!(tokens.is_empty());
        }
        if ends[1] {
            prop_assert_eq!(tokens.len(), output_due(config, visit));
        }
        prop_assert!(tokens.iter().all(|&at| at > visit.arrival), "no token before its request");
        prop_assert!(tokens.is_sorted());
    }
    prop_assert_eq!(log.stuck, 0, "no request waits for ever");
    Ok(())
}

/// Only what was stored can be removed, once per store.
fn check_kv_events(log: &Log) -> Result<(), TestCaseError> {
    let mut cached: BTreeMap<u64, u32> = BTreeMap::new();
    for (_, entry) in &log.entries {
        match entry {
            Entry::Stored(hash) => *cached.entry(*hash).or_default() += 1,
            Entry::Removed(hash) => {
                let copies = cached.get_mut(hash).filter(|copies| **copies > 0);
                prop_assert!(copies.is_some(), "{hash} was removed but not stored");
                if let Some(copies) = copies {
                    *copies -= 1;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_tokens_and_blocks_are_conserved((config, visits) in engine_and_visits(true), ranks in 1..3u32) {
        let config = EngineConfig { dp_size: ranks, ..config };
        let log = drive(&config, &visits, Horizon::Run);
        check_requests(&config, &visits, &log)?;
        prop_assert_eq!(log.active_blocks_at_end, 0, "all blocks are free when all requests are gone");
        if ranks == 1 {
            check_kv_events(&log)?;
        }
    }

    /// Without the reserve for whole prompts, requests under pressure undo each other's work all the time.
    #[test]
    fn prompts_that_compete_for_blocks_all_get_done(
        (config, visits) in engine_and_visits(false),
        preemption in prop_oneof![Just(Preemption::Fifo), Just(Preemption::Lifo)],
    ) {
        if let SchedulerConfig::Vllm(scheduler) = config.scheduler {
            let scheduler = vllm::Config { preemption, scheduler_reserve_full_isl: false, ..scheduler };
            let config = EngineConfig { scheduler: SchedulerConfig::Vllm(scheduler), ..config };
            check_requests(&config, &visits, &drive(&config, &visits, Horizon::Run))?;
        }
    }

    #[test]
    fn references_add_up_after_every_pass((config, visits) in engine_and_visits(false)) {
        if let SchedulerConfig::Vllm(config) = config.scheduler {
            check_references(config, &visits)?;
        }
    }
}

/// Follows one vLLM scheduler block by block.
fn check_references(config: vllm::Config, visits: &[Visit]) -> Result<(), TestCaseError> {
    let usable = config.num_gpu_blocks - 1;
    let mut scheduler = vllm::Scheduler::new(config);
    let mut alive: Vec<RequestId> = Vec::new();
    let mut visits = visits.iter();
    let mut pass = Pass::default();
    for _ in 0..20_000 {
        if let Some(visit) = visits.next() {
            if scheduler.check(visit.request.prompt_tokens, visit.request.max_output_tokens).is_ok() {
                alive.push(scheduler.submit(visit.request.clone()));
            }
        } else if alive.is_empty() {
            return Ok(());
        }
        pass.clear();
        scheduler.schedule(&mut pass);
        check_blocks(&scheduler, &alive, usable)?;
        scheduler.complete(&mut pass);
        alive.retain(|id| !pass.finished.contains(id));
        check_blocks(&scheduler, &alive, usable)?;
    }
    Err(TestCaseError::fail("requests are left after 20,000 passes"))
}

fn check_blocks(scheduler: &vllm::Scheduler, alive: &[RequestId], usable: u32) -> Result<(), TestCaseError> {
    let mut holders: BTreeMap<BlockId, u32> = BTreeMap::new();
    for &id in alive {
        for &block in scheduler.blocks_of(id) {
            prop_assert!(block != BlockId(0), "the null block is never handed out");
            *holders.entry(block).or_default() += 1;
        }
    }
    for (&block, &count) in &holders {
        prop_assert_eq!(scheduler.pool().holders(block), count);
    }
    prop_assert_eq!(holders.len() as u32 + scheduler.pool().free(), usable);
    let mut free = scheduler.pool().free_order();
    free.sort_unstable();
    free.dedup();
    prop_assert_eq!(free.len() as u32, scheduler.pool().free(), "each free block is free once");
    prop_assert!(free.iter().all(|block| !holders.contains_key(block)));
    Ok(())
}

#[test]
fn a_request_that_can_never_fit_is_refused_with_its_reason() {
    let scheduler = vllm::Config { num_gpu_blocks: 11, block_size: 16, ..vllm::Config::default() };
    let scheduler = vllm::Scheduler::new(scheduler);
    assert_eq!(scheduler.check(100, 61), Ok(()));
    let refused = scheduler.check(100, 62).expect_err("161 tokens need 11 blocks");
    assert_eq!(refused.to_string(), "needs 11 KV blocks, the pool has 10");
}
