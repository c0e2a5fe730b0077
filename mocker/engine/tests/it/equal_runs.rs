//! A run of many passes is the same as its passes one by one.

use dynosim_engine::{EngineConfig, Horizon, Nanos, SchedulerConfig, vllm};
use proptest::prelude::*;

use crate::drive::{Entry, drive, drive_watched, engine, engine_and_visits, visits};

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn runs_give_the_same_tokens_at_the_same_nanoseconds((config, visits) in engine_and_visits(true)) {
        let one_by_one = drive(&config, &visits, Horizon::Pass);
        let at_once = drive(&config, &visits, Horizon::Run);
        prop_assert_eq!(one_by_one.difference(&at_once), None);
    }

    #[test]
    fn looking_into_runs_changes_nothing(
        (config, visits) in engine_and_visits(true),
        mut looks in prop::collection::vec(0..2_000_000_000u64, 0..100),
    ) {
        looks.sort_unstable();
        let looks: Vec<_> = looks.into_iter().map(Nanos).collect();
        let one_by_one = drive(&config, &visits, Horizon::Pass);
        let watched = drive_watched(&config, &visits, Horizon::Run, &looks);
        prop_assert_eq!(one_by_one.difference(&watched), None);
    }

    #[test]
    fn the_same_run_twice_is_the_same((config, visits) in engine_and_visits(true), ranks in 1..4u32) {
        let config = EngineConfig { dp_size: ranks, ..config };
        let (first, second) = (drive(&config, &visits, Horizon::Run), drive(&config, &visits, Horizon::Run));
        prop_assert_eq!(first.difference(&second), None);
    }

    #[test]
    fn async_scheduling_makes_the_same_tokens_no_sooner(visits in visits(4, false)) {
        let run = |async_scheduling| {
            let config = vllm::Config { num_gpu_blocks: 200, block_size: 4, async_scheduling, ..vllm::Config::default() };
            drive(&engine(SchedulerConfig::Vllm(config), 800), &visits, Horizon::Run)
        };
        let (sync, ahead) = (run(false), run(true));
        for visit in 0..visits.len() {
            prop_assert_eq!(sync.tokens_of(visit).len(), ahead.tokens_of(visit).len());
            prop_assert_eq!(sync.has(Entry::Finished(visit)), ahead.has(Entry::Finished(visit)));
        }
        prop_assert_eq!(ahead.stuck, 0);
    }
}
