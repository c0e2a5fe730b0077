//! When things happen: known durations, and the flags that change them.

use serde_json::Value;

use crate::place::{Place, assert_close, number};
use crate::refused::SMALL;

/// One request of 5000 prompt and 3 output tokens.
const ONE: [&str; 6] = ["--input-tokens", "5000", "--output-tokens", "3", "--request-count", "1"];
/// Its time to first token with the published polynomial, and the two gaps after it.
const TTFT_MS: f64 = 102.943_593;
const GAPS_MS: [f64; 2] = [5.997_006, 5.997_057];

fn one(json: &str) -> Value {
    Place::new().replay(&[&ONE[..], &["--extra-engine-args", json]].concat())
}

#[test]
fn a_single_request_takes_what_the_published_polynomial_says() {
    let report = Place::new().replay(&ONE);
    assert_close(number(&report, "mean_ttft_ms"), TTFT_MS);
    assert_close(number(&report, "mean_ttst_ms"), GAPS_MS[0]);
    assert_close(number(&report, "min_itl_ms"), GAPS_MS[0]);
    assert_close(number(&report, "max_itl_ms"), GAPS_MS[1]);
    assert_close(number(&report, "duration_ms"), TTFT_MS + GAPS_MS[0] + GAPS_MS[1]);
}

#[test]
fn start_up_delays_the_first_token() {
    let report = one(r#"{"startup_time":2.5}"#);
    assert_close(number(&report, "mean_ttft_ms"), 2500.0 + TTFT_MS);
    assert_close(number(&report, "mean_ttst_ms"), GAPS_MS[0]);
}

#[test]
fn speed_ups_divide_durations_and_the_decode_one_only_decodes() {
    let both = one(r#"{"speedup_ratio":2}"#);
    assert!((number(&both, "mean_ttft_ms") - TTFT_MS / 2.0).abs() < 2e-6);
    assert!((number(&both, "mean_ttst_ms") - GAPS_MS[0] / 2.0).abs() < 2e-6);
    let decode = one(r#"{"decode_speedup_ratio":4}"#);
    assert_close(number(&decode, "mean_ttft_ms"), TTFT_MS);
    assert!((number(&decode, "mean_ttst_ms") - GAPS_MS[0] / 4.0).abs() < 2e-6);
    // Measured with Dynamo 1.6.1.
    let measured = one(r#"{"speedup_ratio":2,"decode_speedup_ratio":3}"#);
    assert!((number(&measured, "mean_ttft_ms") - 51.471_796).abs() < 2e-6);
    assert!((number(&measured, "mean_ttst_ms") - 0.999_501).abs() < 2e-6);
    // In simulated time 0 means "no scaling".
    assert_close(number(&one(r#"{"speedup_ratio":0}"#), "mean_ttft_ms"), TTFT_MS);
}

#[test]
fn fixed_timing_takes_what_it_says() {
    let report = one(r#"{"timing_model":{"type":"fixed","prefill_ms":11,"decode_ms":3}}"#);
    assert_close(number(&report, "mean_ttft_ms"), 11.0);
    assert_close(number(&report, "mean_itl_ms"), 3.0);
}

#[test]
fn max_sim_time_ends_the_run_and_cancels_what_is_in_flight() {
    let place = Place::new();
    let args = ["--input-tokens", "5000", "--output-tokens", "3", "--request-count", "4"];
    let more = ["--arrival-interval-ms", "200", "--max-sim-time-seconds", "0.45"];
    let rows = place.rows(&[&args[..], &more].concat());
    let report = place.json("report.json");
    let status: Vec<_> = rows.iter().map(|row| row["terminal_status"].as_str().unwrap()).collect();
    assert_eq!(status, ["completed", "completed", "canceled"]);
    assert_eq!((&report["num_requests"], &report["completed_requests"]), (&3.into(), &2.into()));
    assert_close(number(&report, "duration_ms"), 200.0 + TTFT_MS + GAPS_MS[0] + GAPS_MS[1]);
    assert!(rows[2]["first_token_ms"].is_null() && rows[2]["e2e_latency_ms"].is_null());
}

#[test]
fn arrival_intervals_and_speed_ups_set_the_arrivals() {
    let place = Place::new();
    let arrivals =
        |args: &[&str]| -> Vec<f64> { place.rows(args).iter().map(|row| number(row, "arrival_time_ms")).collect() };
    let three = ["--input-tokens", "10", "--output-tokens", "1", "--request-count", "3"];
    assert_eq!(arrivals(&three), [0.0, 1.0, 2.0]);
    assert_eq!(arrivals(&[&three[..], &["--arrival-interval-ms", "2.5"]].concat()), [0.0, 2.5, 5.0]);
    let row = |time: u32| format!("{{\"timestamp\":{time},\"output_length\":1,\"hash_ids\":[{time}]}}\n");
    place.file("trace.jsonl", [row(100), row(150), row(400)].concat());
    assert_eq!(arrivals(&["trace.jsonl"]), [0.0, 50.0, 300.0]);
    assert_eq!(arrivals(&["trace.jsonl", "--arrival-speedup-ratio", "5"]), [0.0, 10.0, 60.0]);
    assert_eq!(arrivals(&["trace.jsonl", "--arrival-speedup-ratio", "0.5"]), [0.0, 100.0, 600.0]);
}

#[test]
fn poisson_arrivals_follow_their_rate_and_seed() {
    let place = Place::new();
    let args = ["--input-tokens", "10", "--output-tokens", "1", "--request-count", "2000", "--request-rate", "50"];
    let arrivals = |seed: &[&str]| -> Vec<f64> {
        place.rows(&[&args[..], seed].concat()).iter().map(|row| number(row, "arrival_time_ms")).collect()
    };
    let (first, same, other) = (arrivals(&[]), arrivals(&["--arrival-seed", "42"]), arrivals(&["--arrival-seed", "1"]));
    assert!(first == same && first != other);
    let mean_ms = first.last().unwrap() / 1999.0;
    assert!((18.0..22.0).contains(&mean_ms), "{mean_ms}");
}

#[test]
fn the_next_turn_of_a_session_waits_for_the_end_of_the_last_and_its_delay() {
    let place = Place::new();
    let row = |session: &str, rest: &str| {
        format!("{{\"session_id\":\"{session}\",\"input_length\":900,\"output_length\":9,\"hash_ids\":[1,2],{rest}}}\n")
    };
    place.file(
        "trace.jsonl",
        [
            row("a", r#""timestamp":1000"#),
            row("b", r#""timestamp":1010"#),
            row("a", r#""delay_ms":50"#),
            row("b", r#""timestamp":1060"#),
            row("a", r#""delay":0"#),
        ]
        .concat(),
    );
    let rows = place.rows(&["trace.jsonl"]);
    let turn = |session: &str, index: u32| {
        rows.iter().find(|row| row["session_id"] == session && row["turn_index"] == index).unwrap()
    };
    assert_close(number(turn("a", 0), "arrival_time_ms"), 0.0);
    assert_close(number(turn("b", 0), "arrival_time_ms"), 10.0);
    for (session, index, delay) in [("a", 1, 50.0), ("b", 1, 50.0), ("a", 2, 0.0)] {
        let end = number(turn(session, index - 1), "last_token_ms");
        assert_close(number(turn(session, index), "arrival_time_ms"), end + delay);
    }
    // Delays are arrival gaps too.
    let rows = place.rows(&["trace.jsonl", "--arrival-speedup-ratio", "10"]);
    let a: Vec<_> = rows.iter().filter(|row| row["session_id"] == "a").collect();
    assert_close(number(a[1], "arrival_time_ms"), number(a[0], "last_token_ms") + 5.0);
}

#[test]
fn synthetic_sessions_have_turns_and_pauses() {
    let place = Place::new();
    let args = ["--input-tokens", "100", "--output-tokens", "3", "--request-count", "5"];
    let rows = place.rows(&[&args[..], &["--turns-per-session", "3", "--inter-turn-delay-ms", "250"]].concat());
    assert_eq!(rows.len(), 15);
    for session in rows.iter().filter(|row| row["turn_index"] == 0).map(|row| &row["session_id"]) {
        let turns: Vec<_> = rows.iter().filter(|row| row["session_id"] == *session).collect();
        assert_eq!(turns.len(), 3);
        for pair in turns.windows(2) {
            assert_close(number(pair[1], "arrival_time_ms"), number(pair[0], "last_token_ms") + 250.0);
        }
    }
}

/// Most sessions in flight at the same time: from the first arrival to the last token of each.
fn most_sessions(rows: &[Value]) -> usize {
    let names: std::collections::BTreeSet<_> =
        rows.iter().map(|row| row["session_id"].as_str().expect("a text")).collect();
    let spans: Vec<_> = names
        .iter()
        .map(|name| {
            let turns = || rows.iter().filter(|row| row["session_id"] == *name);
            let start = turns().map(|row| number(row, "arrival_time_ms")).fold(f64::INFINITY, f64::min);
            (start, turns().map(|row| number(row, "last_token_ms")).fold(0.0, f64::max))
        })
        .collect();
    let active = |at: f64| spans.iter().filter(|(start, end)| *start <= at && at < *end).count();
    spans.iter().map(|(start, _)| active(*start)).max().unwrap_or(0)
}

#[test]
fn replay_concurrency_keeps_just_so_many_sessions_in_flight() {
    let place = Place::new();
    place.run(&["trace", "generate", "-o", "trace.jsonl", "--requests", "300"]);
    place.run(&["trace", "generate", "-o", "sessions.jsonl", "--requests", "300", "--sessions"]);
    for (trace, limit) in [("trace.jsonl", 4), ("trace.jsonl", 1), ("sessions.jsonl", 6)] {
        let rows = place.rows(&[trace, "--replay-concurrency", &limit.to_string(), "--num-workers", "2"]);
        assert_eq!(rows.len(), 300);
        assert_eq!(most_sessions(&rows), limit, "{trace} at {limit}");
    }
    let rows = place.rows(&["sessions.jsonl"]);
    assert!(most_sessions(&rows) > 6);
}

#[test]
fn at_fixed_concurrency_timestamps_may_be_missing() {
    let place = Place::new();
    place.file("trace.jsonl", "{\"output_length\":3,\"hash_ids\":[1]}\n{\"output_length\":3,\"hash_ids\":[2]}\n");
    let rows = place.rows(&["trace.jsonl", "--replay-concurrency", "1"]);
    assert_close(number(&rows[1], "arrival_time_ms"), number(&rows[0], "last_token_ms"));
}

#[test]
fn shared_prefixes_are_reused() {
    let args = ["--input-tokens", "1280", "--output-tokens", "2", "--request-count", "50", "--num-prefix-groups", "1"];
    let ratio = |share: &str| {
        let flags = ["--shared-prefix-ratio", share, "--arrival-interval-ms", "1000"];
        number(&Place::new().replay(&[&args[..], &flags].concat()), "prefix_cache_reused_ratio")
    };
    assert_close(ratio("0"), 0.0);
    assert_close(ratio("0.5"), 0.5 * 49.0 / 50.0);
}

#[test]
fn workers_share_the_load() {
    let args =
        ["--input-tokens", "2000", "--output-tokens", "20", "--request-count", "64", "--replay-concurrency", "32"];
    let duration =
        |workers: &str| number(&Place::new().replay(&[&args[..], &["--num-workers", workers]].concat()), "duration_ms");
    assert!(duration("4") < duration("1") / 2.0);
}

#[test]
fn the_flat_and_the_nested_form_of_engine_arguments_mean_the_same() {
    let run = |json: &str| {
        let mut report = Place::new().replay(&[&SMALL[..], &["--extra-engine-args", json]].concat());
        for clock in crate::reports_stay::CLOCK {
            report.as_object_mut().unwrap().remove(clock);
        }
        report
    };
    let flat = r#"{"engine_type":"sglang","block_size":16,"speedup_ratio":3}"#;
    assert_eq!(run(flat), run(r#"{"engine":{"backend":"sglang","block_size":16,"speedup_ratio":3}}"#));
    assert_eq!(run(flat), run(r#"{"engine_type":"sglang","sglang":{"page_size":16},"speedup_ratio":3}"#));
}
