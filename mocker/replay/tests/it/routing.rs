//! What the KV router is for, and what it sees.

use dynosim_engine::{Nanos, TransferMode};
use dynosim_replay::{Record, ReplayConfig, Routing};

use crate::setup::{Kind, Visit, aggregated, config, disaggregated, kv, run, visit};

/// Twelve long prefixes, in an order that no turn of workers follows.
fn prefix_heavy() -> Vec<Visit> {
    (0..400u64).map(|number| visit(number as f64 * 7.0, number * 7919 % 13 % 12, 480, 8)).collect()
}

fn report(config: ReplayConfig, visits: &[Visit]) -> serde_json::Value {
    run(config, visits).report.to_json(1.0)
}

#[test]
fn prefixes_are_found_where_they_are() {
    let visits = prefix_heavy();
    for kind in [Kind::Vllm, Kind::Sglang] {
        let one = || aggregated(kind, 4, 140);
        let two = || disaggregated(kind, TransferMode::FullPrompt, (4, 2), (140, 400));
        for (turn, routed) in [
            (report(config(one(), Routing::RoundRobin), &visits), report(config(one(), kv(|_| ())), &visits)),
            (report(config(two(), Routing::RoundRobin), &visits), report(config(two(), kv(|_| ())), &visits)),
        ] {
            let of = |report: &serde_json::Value, key: &str| report[key].as_f64().expect(key);
            let reused = |report| of(report, "prefix_cache_reused_ratio");
            assert!(reused(&routed) > reused(&turn) + 0.2, "{kind:?}: {} and {}", reused(&routed), reused(&turn));
            let computed = |report| of(report, "committed_prefill_tokens");
            assert!(computed(&routed) < 0.7 * computed(&turn), "{kind:?}");
        }
    }
}

fn rows(config: ReplayConfig, visits: &[Visit]) -> Vec<Record> {
    run(config, visits).records.expect("rows")
}

#[test]
fn a_prefix_is_seen_when_the_pass_that_stored_it_has_ended_or_so_long_after_as_is_told() {
    // The first request's blocks are stored by the pass that ends at 10 ms; it decodes until 32 ms.
    for (at_ms, lag_ms, overlap) in [(9.9, 0.0, 0), (10.0, 0.0, 96), (14.9, 5.0, 0), (15.0, 5.0, 96)] {
        let visits = [visit(0.0, 1, 100, 12), visit(at_ms, 1, 100, 1)];
        let Routing::Kv(mut routing) = kv(|_| ()) else { panic!("a router") };
        routing.event_lag = Nanos::from_ms(lag_ms);
        let rows = rows(config(aggregated(Kind::Vllm, 2, 1000), Routing::Kv(routing)), &visits);
        assert_eq!(rows[1].decode_route_overlap_tokens, Some(overlap), "{at_ms} ms, lag {lag_ms} ms");
        assert!(overlap == 0 || rows[1].decode_worker_idx == rows[0].decode_worker_idx, "{at_ms} ms, lag {lag_ms} ms");
    }
}

#[test]
fn both_pools_are_routed_and_only_the_prefill_pool_by_prefixes() {
    let visits = [visit(0.0, 1, 100, 50), visit(50.0, 1, 100, 50)];
    let fleet = disaggregated(Kind::Vllm, TransferMode::FullPrompt, (2, 2), (1000, 1000));
    let rows = rows(config(fleet, kv(|_| ())), &visits);
    assert_eq!(rows[0].prefill_worker_idx, rows[1].prefill_worker_idx);
    assert_ne!(rows[0].decode_worker_idx, rows[1].decode_worker_idx, "one of them has less load");
    let overlap = |row: &Record| (row.prefill_route_overlap_tokens, row.decode_route_overlap_tokens);
    assert_eq!(rows.iter().map(overlap).collect::<Vec<_>>(), [(Some(0), Some(0)), (Some(96), Some(0))]);
}

#[test]
fn requests_wait_in_the_queue_until_a_prompt_is_done() {
    // One worker, busy with any prompt token: prompts are computed one by one, the short one first.
    let visits = [visit(0.0, 1, 1000, 1), visit(1.0, 2, 3000, 1), visit(2.0, 3, 100, 1)];
    for (policy, order) in [("fcfs", [10.0, 20.0, 30.0]), ("lcfs", [10.0, 30.0, 20.0]), ("wspt", [10.0, 30.0, 20.0])] {
        let routing = kv(|config| {
            config.router_queue_threshold = Some(0.0);
            config.set("router_queue_policy", &policy.into()).expect("a policy");
        });
        let rows = rows(config(aggregated(Kind::Vllm, 1, 1000), routing), &visits);
        let first: Vec<_> = rows.iter().map(|row| row.first_token_ms.expect("it ran")).collect();
        assert_eq!(first, order, "{policy}");
    }
}

#[test]
fn a_choice_is_explained_with_the_cost_of_every_worker() {
    let visits = [visit(0.0, 1, 100, 2), visit(50.0, 1, 100, 2)];
    let explained = |fleet, row| {
        let config = ReplayConfig { explain: Some(row), ..config(fleet, kv(|_| ())) };
        run(config, &visits).explanation
    };
    let text = explained(aggregated(Kind::Vllm, 3, 1000), 1).expect("it was routed");
    assert!(text.lines().count() >= 3, "{text}");
    let two = disaggregated(Kind::Vllm, TransferMode::FullPrompt, (2, 2), (1000, 1000));
    let text = explained(two, 1).expect("it was routed");
    assert!(text.contains("prefill pool") && text.contains("decode pool"), "{text}");
    assert_eq!(explained(aggregated(Kind::Vllm, 3, 1000), 2), None);
}

#[test]
fn a_choice_is_explained_as_it_was_made_after_a_wait() {
    // All wait for the first prompt and then leave the queue together: a rank is busy only above so many tokens.
    let visits = [visit(0.0, 1, 1000, 9), visit(1.0, 1, 1000, 9), visit(2.0, 2, 100, 9), visit(3.0, 3, 100, 9)];
    let routing = || kv(|config| config.router_queue_threshold = Some(0.05));
    for (row, cached) in [(1, 62), (2, 0)] {
        let config = ReplayConfig { explain: Some(row), ..config(aggregated(Kind::Vllm, 1, 1000), routing()) };
        let text = run(config, &visits).explanation.expect("it was routed");
        let line = text.lines().find(|line| line.starts_with('*')).expect("a winner");
        let columns: Vec<_> = line.split_whitespace().collect();
        assert_eq!(columns[4], cached.to_string(), "{text}");
    }
}
