//! Equal input gives equal bytes; runs of passes give what single passes give.

use dynosim_engine::{Horizon, Nanos, TransferMode};
use dynosim_replay::{Fleet, ReplayConfig, Routing};
use proptest::prelude::*;

use crate::setup::{Kind, Visit, aggregated, all_of, config, disaggregated, kv, run, visits};

fn fleets() -> impl Strategy<Value = Fleet> {
    let kind = || prop_oneof![Just(Kind::Vllm), Just(Kind::Sglang)];
    let two = |kind| disaggregated(kind, TransferMode::DestinationMissing, (2, 2), (40, 40));
    prop_oneof![kind().prop_map(|kind| aggregated(kind, 3, 40)), kind().prop_map(two)]
}

fn routings() -> impl Strategy<Value = Routing> {
    let lagging = |lag: f64| match kv(|config| config.router_temperature = 0.3) {
        Routing::Kv(mut routing) => {
            routing.event_lag = Nanos::from_ms(lag);
            Routing::Kv(routing)
        }
        other @ Routing::RoundRobin => other,
    };
    prop_oneof![
        Just(Routing::RoundRobin),
        Just(kv(|_| ())),
        Just(kv(|config| {
            config.router_queue_threshold = Some(0.01);
            config.router_track_output_blocks = true;
        })),
        (0.0..30.0f64).prop_map(lagging),
    ]
}

/// But for the digest, which counts steps.
fn seen(config: ReplayConfig, visits: &[Visit]) -> (serde_json::Value, serde_json::Value) {
    let (report, rows, _) = all_of(&run(config, visits));
    (report, rows)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_run_twice_is_the_same(fleet in fleets(), routing in routings(), visits in visits()) {
        let once = || all_of(&run(config(fleet.clone(), routing.clone()), &visits));
        prop_assert_eq!(once(), once());
    }

    #[test]
    fn routers_see_in_the_middle_of_runs_what_single_passes_would_show(
        fleet in fleets(),
        routing in routings(),
        visits in visits(),
    ) {
        let with = |horizon| seen(ReplayConfig { horizon, ..config(fleet.clone(), routing.clone()) }, &visits);
        let (passes, runs) = (with(Horizon::Pass), with(Horizon::Run));
        prop_assert_eq!(&passes.1, &runs.1);
        for key in ["mean_ttft_ms", "num_forward_passes", "num_preemptions", "p99_itl_ms", "committed_prefill_tokens"] {
            prop_assert_eq!(&passes.0[key], &runs.0[key], "{}", key);
        }
    }
}
