//! The numbers of a report equal a calculation by hand.

use dynosim_load::{Answering, Endpoint, PromptFormat, first_model};
use dynosim_replay::{Admission, Sla};
use serde_json::json;

use crate::server::{Pace, Server};
use crate::setup::{Ran, config, ms, requests, run};

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "found {found}, expected {expected}");
}

#[test]
fn reports_sum_up_what_rows_say_and_rows_keep_the_servers_pace() {
    let server = Server::start(Pace { first: ms(30), gap: ms(10), ..Pace::default() });
    let ran = run(&config(&server.url()), &mut requests(8, 5, 20.0));
    for (key, value) in [
        ("num_requests", json!(8)),
        ("completed_requests", json!(8)),
        ("failed_requests", json!(0)),
        ("rejected_requests", json!(0)),
        ("canceled_requests", json!(0)),
        ("total_input_tokens", json!(320)),
        ("total_output_tokens", json!(40)),
        ("input_length_mismatches", json!(0)),
        ("output_length_mismatches", json!(0)),
        ("num_ttft_samples", json!(8)),
        ("num_tpot_samples", json!(8)),
    ] {
        assert_eq!(ran.report[key], value, "{key}");
    }
    let (ttft, e2e, itl) = (ran.column("ttft_ms"), ran.column("e2e_latency_ms"), ran.column("itl_ms"));
    // Timers of the server fire late, never early, and each token is stamped after it was sent.
    assert!(ttft.iter().all(|&ttft| ttft >= 30.0) && e2e.iter().all(|&e2e| e2e >= 70.0), "{ttft:?} {e2e:?}");
    assert_close(ran.number("mean_ttft_ms"), mean(&ttft));
    assert_close(ran.number("mean_e2e_latency_ms"), mean(&e2e));
    assert_close(ran.number("mean_itl_ms"), mean(&itl));
    assert_close(ran.number("mean_tpot_ms"), mean(&itl));
    let arrivals = ran.column("arrival_time_ms");
    let last = ran.column("last_token_ms").into_iter().fold(0.0, f64::max);
    assert_close(ran.number("duration_ms"), last);
    assert_close(ran.number("request_throughput_rps"), 8.0 / last * 1e3);
    assert_close(ran.number("output_throughput_tok_s"), 40.0 / last * 1e3);
    let late: Vec<_> = arrivals.iter().enumerate().map(|(index, at)| at - 20.0 * index as f64).collect();
    assert_close(ran.number("mean_send_lateness_ms"), mean(&late));
}

#[test]
fn both_routes_and_both_formats_give_the_lengths_of_the_workload() {
    for (endpoint, format) in [
        (Endpoint::Completions, PromptFormat::Tokens),
        (Endpoint::Completions, PromptFormat::Text),
        (Endpoint::Chat, PromptFormat::Text),
    ] {
        for answering in [Answering::Stream, Answering::Whole] {
            let server = Server::start(Pace { first: ms(5), gap: ms(50), ..Pace::default() });
            let config = dynosim_load::LoadConfig { endpoint, format, answering, ..config(&server.url()) };
            let ran = run(&config, &mut requests(3, 4, 1.0));
            let counts = ["completed_requests", "total_input_tokens", "total_output_tokens"].map(|key| ran.number(key));
            assert_eq!(counts, [3.0, 120.0, 12.0], "{endpoint:?} {format:?} {answering:?}: {:?}", ran.outcome.failures);
            let wrong = ["input_length_mismatches", "output_length_mismatches"].map(|key| ran.number(key));
            assert_eq!(wrong, [0.0, 0.0], "{endpoint:?} {format:?} {answering:?}");
            let (ttft, e2e) = (ran.column("ttft_ms"), ran.column("e2e_latency_ms"));
            assert_eq!(ttft == e2e, answering == Answering::Whole, "{ttft:?} {e2e:?}");
        }
    }
}

#[test]
fn tokens_that_come_together_have_no_gap_between_them() {
    let server = Server::start(Pace { gap: ms(10), per_event: 3, ..Pace::default() });
    let ran = run(&config(&server.url()), &mut requests(1, 9, 1.0));
    assert_eq!(ran.number("total_output_tokens"), 9.0);
    // Eight gaps: two between events of 30 ms each, six of nothing.
    assert_eq!((ran.number("min_itl_ms"), ran.number("median_itl_ms")), (0.0, 0.0));
    assert!(ran.column("e2e_latency_ms")[0] >= 60.0);
    let span = ran.column("e2e_latency_ms")[0] - ran.column("ttft_ms")[0];
    assert_close(ran.number("mean_itl_ms") * 8.0, span);
}

#[test]
fn a_service_level_counts_the_good_and_the_failed_as_bad() {
    let server = Server::start(Pace { first: ms(20), ..Pace::default() });
    let sla = |ttft_ms| Sla { ttft_ms: Some(ttft_ms), ..Sla::default() };
    let good = |ran: &Ran| (ran.number("goodput_completed_requests"), ran.outcome.outcome.report.good_share());
    let with = |limit| dynosim_load::LoadConfig { sla: sla(limit), ..config(&server.url()) };
    assert_eq!(good(&run(&with(9000.0), &mut requests(4, 2, 1.0))), (4.0, Some(1.0)));
    assert_eq!(good(&run(&with(19.0), &mut requests(4, 2, 1.0))), (0.0, Some(0.0)));
}

#[test]
fn warm_up_requests_count_nowhere_and_share_no_prefix_with_the_run() {
    let server = Server::start(Pace::default());
    let config = dynosim_load::LoadConfig { warmup_requests: 5, ..config(&server.url()) };
    let ran = run(&config, &mut requests(6, 2, 0.0));
    assert_eq!((ran.number("num_requests"), ran.rows.len()), (6.0, 6));
    assert_eq!(ran.number("prefix_cache_reused_ratio"), 0.0);
    assert_eq!(server.seen.lock().unwrap().requests.len(), 11);
    // Connections of the warm-up serve the run.
    assert!(ran.number("connections_opened") <= 11.0);
}

#[test]
fn the_model_is_the_first_that_the_server_lists() {
    let server = Server::start(Pace::default());
    assert_eq!(first_model(&config(&server.url()).target).unwrap(), "tiny");
    let ran = run(
        &dynosim_load::LoadConfig { admission: Admission::Concurrency(1), ..config(&server.url()) },
        &mut requests(3, 1, 0.0),
    );
    assert_eq!(ran.number("connections_opened"), 1.0, "one connection carries all of a closed loop of one");
}
