//! The way of a request through two pools, against times worked out by hand.

use dynosim_engine::TransferMode;
use dynosim_replay::{Record, Routing};

use crate::setup::{Kind, Visit, config, disaggregated, run, visit};

fn courses(kind: Kind, mode: TransferMode, visits: &[Visit]) -> Vec<Record> {
    let fleet = disaggregated(kind, mode, (1, 1), (1000, 1000));
    run(config(fleet, Routing::RoundRobin), visits).records.expect("rows")
}

/// Milliseconds: blocks reserved, prompt held, KV arrived, then the first and the last token.
fn times(row: &Record) -> (f64, f64, f64, [f64; 2]) {
    let ms = |at: Option<f64>| at.expect("it got there");
    assert_eq!(row.source_released_ms, row.destination_activated_ms);
    let tokens = [ms(row.first_token_ms), ms(row.last_token_ms)];
    (ms(row.destination_reserved_ms), ms(row.source_held_ms), ms(row.destination_activated_ms), tokens)
}

#[test]
fn one_request_takes_prefill_then_transfer_then_a_decode_pass_per_token() {
    use TransferMode::{DestinationMissing, FullPrompt};
    for (kind, mode, reserved, transfer) in [
        // 100 tokens, and 112 in whole blocks of 16.
        (Kind::Vllm, FullPrompt, 10.0, 5.0),
        (Kind::Vllm, DestinationMissing, 10.0, 5.6),
        (Kind::Sglang, FullPrompt, 0.0, 5.0),
        (Kind::Sglang, DestinationMissing, 0.0, 5.6),
    ] {
        let [course] = &courses(kind, mode, &[visit(0.0, 1, 100, 3)])[..] else { panic!("one") };
        let activated = 10.0 + transfer;
        assert_eq!(times(course), (reserved, 10.0, activated, [activated + 2.0, activated + 6.0]), "{kind:?} {mode:?}");
    }
}

/// The second request comes while the prompt of the first one is computed, so its own is computed from 10 to 20 ms. The
/// first one decodes from 15 to 21 ms.
#[test]
fn the_second_of_two_requests_waits_for_the_pass_after_which_its_blocks_are_reserved() {
    let visits = [visit(0.0, 1, 100, 3), visit(4.0, 2, 100, 3)];
    for (kind, second) in [
        // Asked for blocks at 20 ms, in the middle of the pass that ends at 21 ms.
        (Kind::Vllm, (21.0, 20.0, 26.0, [28.0, 32.0])),
        // The destination was idle at 4 ms.
        (Kind::Sglang, (4.0, 20.0, 25.0, [27.0, 31.0])),
    ] {
        let courses = courses(kind, TransferMode::FullPrompt, &visits);
        let first = times(&courses[0]);
        assert_eq!((first.1, first.2, first.3), (10.0, 15.0, [17.0, 21.0]), "{kind:?}");
        assert_eq!(times(&courses[1]), second, "{kind:?}");
    }
}

#[test]
fn who_arrives_while_another_decodes_joins_its_next_pass() {
    let visits = [visit(0.0, 1, 100, 10), visit(5.0, 2, 100, 2)];
    for (kind, reserved, activated, tokens) in [
        // Asked for blocks at 20 ms; the pass in progress ends at 21 ms, then they are taken. The KV arrives in the pass
        // from 25 to 27 ms.
        (Kind::Vllm, 21.0, 26.0, [29.0, 31.0]),
        // The KV arrives just when a pass ends.
        (Kind::Sglang, 5.0, 25.0, [27.0, 29.0]),
    ] {
        let courses = courses(kind, TransferMode::FullPrompt, &visits);
        let first = times(&courses[0]);
        assert_eq!((first.1, first.3), (10.0, [17.0, 35.0]), "{kind:?}");
        assert_eq!(times(&courses[1]), (reserved, 20.0, activated, tokens), "{kind:?}");
    }
}

#[test]
fn what_the_destination_knows_does_not_travel() {
    // The same prompt again: 96 of its 100 tokens are full blocks that the destination keeps; 16 of 112 are missing.
    let visits = [visit(0.0, 1, 100, 1), visit(100.0, 1, 100, 1)];
    for (kind, reserved) in [(Kind::Vllm, 110.0), (Kind::Sglang, 100.0)] {
        let courses = courses(kind, TransferMode::DestinationMissing, &visits);
        assert_eq!((courses[1].reused_input_tokens, courses[1].decode_reused_input_tokens), (96, Some(96)), "{kind:?}");
        assert_eq!(times(&courses[1]), (reserved, 110.0, 110.8, [112.8, 112.8]), "{kind:?}");
    }
}

#[test]
fn both_pools_take_turns_of_their_own() {
    let fleet = disaggregated(Kind::Vllm, TransferMode::FullPrompt, (2, 3), (1000, 1000));
    let visits: Vec<_> = (0..7u32).map(|number| visit(f64::from(number) * 100.0, number.into(), 100, 2)).collect();
    let rows = run(config(fleet, Routing::RoundRobin), &visits).records.expect("rows");
    let workers = |row: &Record| (row.prefill_worker_idx, row.decode_worker_idx);
    let expected: Vec<_> = (0..7).map(|number| (Some(number % 2), Some(number % 3))).collect();
    assert_eq!(rows.iter().map(workers).collect::<Vec<_>>(), expected);
}

#[test]
fn the_report_counts_both_pools_and_computes_no_prompt_twice() {
    for kind in [Kind::Vllm, Kind::Sglang] {
        let fleet = disaggregated(kind, TransferMode::FullPrompt, (2, 3), (1000, 1000));
        let visits = [visit(0.0, 1, 100, 3), visit(50.0, 1, 100, 3)];
        let report = run(config(fleet, Routing::RoundRobin), &visits).report.to_json(1.0);
        // The second request goes to the other prefill worker, and ends at 50 + 10 + 5 + 3 · 2 ms.
        let close = |key: &str, expected: f64| {
            let value = report[key].as_f64().expect(key);
            assert!((value - expected).abs() < 1e-9, "{kind:?} {key}: {value}");
        };
        close("prefill_worker_seconds", 2.0 * 0.071);
        close("decode_worker_seconds", 3.0 * 0.071);
        close("gpu_hours", 5.0 * 0.071 / 3600.0);
        close("committed_prefill_tokens", 200.0);
        close("total_output_tokens", 6.0);
        close("prefix_cache_reused_ratio", 0.0);
        close("mean_ttft_ms", 17.0);
        close("mean_itl_ms", 2.0);
    }
}
