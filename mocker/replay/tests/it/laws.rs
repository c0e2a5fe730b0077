//! What holds for every run.

use dynosim_engine::{Role, TransferMode};
use dynosim_replay::{Fleet, Outcome, Record, Routing, TerminalStatus};
use proptest::prelude::*;

use crate::setup::{Kind, PAGE, Visit, aggregated, config, disaggregated, engine, kv, link, run, visits};

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Vllm), Just(Kind::Sglang)]
}

fn routings() -> impl Strategy<Value = Routing> {
    let queue = || kv(|config| config.router_queue_threshold = Some(0.01));
    let events = || kv(|config| config.use_kv_events = false);
    let drawn = || kv(|config| config.router_temperature = 0.5);
    let output = || kv(|config| config.router_track_output_blocks = true);
    prop_oneof![
        Just(Routing::RoundRobin),
        Just(kv(|_| ())),
        Just(queue()),
        Just(events()),
        Just(drawn()),
        Just(output())
    ]
}

/// Those that both engines can run.
fn fitting(visits: Vec<Visit>, kind: Kind, blocks: &[(Role, u32)]) -> Vec<Visit> {
    let fits = |visit: &Visit| {
        blocks
            .iter()
            .all(|&(role, blocks)| engine(kind, role, blocks).check(visit.prompt_tokens, visit.output_tokens).is_ok())
    };
    visits.into_iter().filter(fits).collect()
}

/// Rows in the order of the input.
fn rows(outcome: Outcome) -> Vec<Record> {
    let mut rows = outcome.records.expect("rows");
    rows.sort_by(|a, b| a.uuid.cmp(&b.uuid));
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_go_through_two_pools_in_order_and_get_all_their_tokens(
        kind in kinds(),
        mode in prop_oneof![Just(TransferMode::FullPrompt), Just(TransferMode::DestinationMissing)],
        routing in routings(),
        workers in (1..3usize, 1..3usize),
        blocks in (16..60u32, 16..60u32),
        visits in visits(),
    ) {
        let visits = fitting(visits, kind, &[(Role::Prefill, blocks.0), (Role::Decode, blocks.1)]);
        let outcome = run(config(disaggregated(kind, mode, workers, blocks), routing), &visits);
        let rows = rows(outcome);
        prop_assert_eq!(rows.len(), visits.len());
        for (visit, row) in visits.iter().zip(&rows) {
            prop_assert_eq!(row.terminal_status, TerminalStatus::Completed);
            prop_assert_eq!(row.output_length, visit.output_tokens);
            let moments = [row.prefill_admit_ms, row.source_held_ms, row.destination_reserved_ms, row.destination_activated_ms];
            let [admit, held, reserved, activated] = moments.map(|moment| moment.expect("it got there"));
            let (decode, first) = (row.decode_admit_ms.expect("it ran"), row.first_token_ms.expect("it ran"));
            prop_assert!(row.arrival_time_ms <= admit && admit < held && held <= activated);
            prop_assert!(row.arrival_time_ms <= reserved && activated <= decode && decode < first);
            match kind {
                Kind::Vllm => prop_assert!(held <= reserved),
                Kind::Sglang => prop_assert!(reserved <= admit),
            }
            let travels = match mode {
                TransferMode::FullPrompt => visit.prompt_tokens,
                TransferMode::DestinationMissing => {
                    visit.prompt_tokens.next_multiple_of(PAGE) - row.decode_reused_input_tokens.expect("it ran")
                }
            };
            let whole = link(TransferMode::FullPrompt).delay(travels, 0).as_ms();
            prop_assert!((activated - held.max(reserved) - whole).abs() < 1e-6);
        }
    }

    #[test]
    fn one_pool_completes_what_it_is_given(
        kind in kinds(),
        routing in routings(),
        workers in 1..4usize,
        blocks in 16..60u32,
        visits in visits(),
    ) {
        let visits = fitting(visits, kind, &[(Role::Aggregated, blocks)]);
        let outcome = run(config(aggregated(kind, workers, blocks), routing), &visits);
        for (visit, row) in visits.iter().zip(rows(outcome)) {
            prop_assert_eq!(row.terminal_status, TerminalStatus::Completed);
            prop_assert_eq!(row.output_length, visit.output_tokens);
            prop_assert!((row.decode_worker_idx.expect("it ran") as usize) < workers);
        }
    }
}

#[test]
fn what_no_worker_could_run_is_refused_whoever_routes() {
    let visits = [
        crate::setup::visit(0.0, 1, 100, 2),
        crate::setup::visit(1.0, 2, 2000, 2),
        crate::setup::visit(2.0, 3, 100, 2),
    ];
    for routing in [Routing::RoundRobin, kv(|_| ())] {
        for fleet in [
            aggregated(Kind::Vllm, 2, 60),
            disaggregated(Kind::Vllm, TransferMode::FullPrompt, (1, 1), (60, 1000)),
            disaggregated(Kind::Vllm, TransferMode::FullPrompt, (1, 1), (1000, 60)),
        ] {
            let fleet: Fleet = fleet;
            let rows = rows(run(config(fleet, routing.clone()), &visits));
            let statuses: Vec<_> = rows.iter().map(|row| row.terminal_status).collect();
            assert_eq!(statuses, [TerminalStatus::Completed, TerminalStatus::Rejected, TerminalStatus::Completed]);
            assert!(
                rows[1].rejection.as_deref().is_some_and(|why| why.contains("KV blocks")),
                "{:?}",
                rows[1].rejection
            );
        }
    }
}
