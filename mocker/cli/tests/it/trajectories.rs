//! Requests that wait for others, sessions, lanes and concurrency, as a whole run shows them.

use std::fmt::Write as _;

use serde_json::Value;

use crate::place::{Place, number};

/// Trajectories of the large run.
const TRAJECTORIES: usize = 10_000;
/// Requests of each: one that starts two agents, which both must end before the last.
const REQUESTS: usize = 4;

/// The trajectory's requests: what each waits for, and its delay in ms.
const SHAPE: [(&[usize], f64); REQUESTS] = [(&[], 0.0), (&[0], 3.5), (&[0], 0.0), (&[1, 2, 0], 20.0)];

fn forks_and_joins() -> String {
    let mut text = String::new();
    for trajectory in 0..TRAJECTORIES {
        // The joining request comes first in the file: names may be used before they are there.
        for (place, (on, delay)) in SHAPE.iter().enumerate().rev() {
            let on: Vec<String> = on.iter().map(|on| format!("\"t{trajectory}-{on}\"")).collect();
            let time = if on.is_empty() { format!(",\"timestamp\":{trajectory}") } else { String::new() };
            let _ = writeln!(
                text,
                r#"{{"request_id":"t{trajectory}-{place}","session_id":"t{trajectory}"{time},"input_length":{},"output_length":{},"hash_ids":[{},{}],"wait_for":[{}],"delay":{delay}}}"#,
                20 + place * 5,
                1 + (trajectory + place) % 7,
                trajectory % 50,
                1000 + trajectory,
                on.join(","),
            );
        }
    }
    text
}

/// The number of the request in the file.
fn row_of(row: &Value) -> usize {
    let uuid = row["uuid"].as_str().expect("a text");
    let digits = uuid.rsplit('-').next().expect("a part");
    usize::from_str_radix(digits, 16).expect("a number")
}

#[test]
fn ten_thousand_trajectories_come_to_their_end_each_request_after_all_it_waits_for() {
    let place = Place::new();
    place.file("trace.jsonl", forks_and_joins());
    let args = ["trace.jsonl", "--trace-format", "agentic_mooncake", "--trace-block-size", "32", "--num-workers", "4"];
    let engine = ["--extra-engine-args", r#"{"block_size":16,"num_gpu_blocks":2000}"#];
    let rows = place.rows(&[&args[..], &engine[..]].concat());
    assert_eq!(rows.len(), TRAJECTORIES * REQUESTS);
    assert!(rows.iter().all(|row| row["terminal_status"] == "completed"));
    let mut times = vec![(0.0, 0.0); rows.len()];
    for row in &rows {
        times[row_of(row)] = (number(row, "arrival_time_ms"), number(row, "last_token_ms"));
    }
    for trajectory in times.chunks(REQUESTS) {
        for (place, (on, delay)) in SHAPE.iter().enumerate().filter(|(_, (on, _))| !on.is_empty()) {
            let at = |place: usize| trajectory[REQUESTS - 1 - place];
            let last = on.iter().map(|&on| at(on).1).fold(0.0, f64::max);
            assert!((at(place).0 - last - delay).abs() < 2e-6, "{place}: {trajectory:?}");
        }
    }
}

/// Sessions as spans from the first arrival to the last token.
fn spans(rows: &[Value]) -> Vec<(f64, f64)> {
    let mut spans = std::collections::BTreeMap::<&str, (f64, f64)>::new();
    for row in rows {
        let span = spans.entry(row["session_id"].as_str().expect("a text")).or_insert((f64::MAX, 0.0));
        span.0 = span.0.min(number(row, "arrival_time_ms"));
        span.1 = span.1.max(number(row, "last_token_ms"));
    }
    spans.into_values().collect()
}

/// At every instant at most `cap` spans are open, and as many until the last has begun.
#[track_caller]
fn assert_capped(spans: &[(f64, f64)], cap: usize) {
    let mut changes: Vec<(f64, i32)> = spans.iter().flat_map(|&(start, end)| [(start, 1), (end, -1)]).collect();
    // At one instant, what ends makes room for what begins.
    changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let last_start = spans.iter().map(|span| span.0).fold(0.0, f64::max);
    let mut open = 0i32;
    for instant in changes.chunk_by(|a, b| a.0.to_bits() == b.0.to_bits()) {
        open += instant.iter().map(|(_, change)| change).sum::<i32>();
        assert!(open as usize <= cap, "{open} at {}", instant[0].0);
        if instant[0].0 < last_start {
            assert_eq!(open as usize, cap.min(spans.len()), "at {}", instant[0].0);
        }
    }
}

#[test]
fn closed_concurrency_holds_its_cap_of_sessions_at_every_instant() {
    let mut text = String::new();
    for session in 0..400u32 {
        let turns = session % 5;
        let each = |value: u32| vec![value.to_string(); turns as usize].join(",");
        let _ = writeln!(
            text,
            r#"{{"num_turns":{turns},"input_prompt_length":{},"assistant_response_length":[{}],"tool_call_output_length":[{}],"tool_call_latency":[{}],"final_assistant_response_length":{}}}"#,
            30 + session % 90,
            each(1 + session % 11),
            each(session % 70),
            each(session % 3),
            1 + session % 13,
        );
    }
    let place = Place::new();
    place.file("trace.jsonl", text);
    for cap in ["1", "7", "64"] {
        let rows = place.rows(&[
            "trace.jsonl",
            "--trace-format",
            "applied_compute_agentic",
            "--trace-shared-prefix-ratio",
            "0.5",
            "--trace-num-prefix-groups",
            "4",
            "--replay-concurrency",
            cap,
            "--num-workers",
            "3",
            "--extra-engine-args",
            r#"{"block_size":16,"num_gpu_blocks":400}"#,
        ]);
        assert_eq!(rows.len(), 400 + (0..400).map(|session| session % 5).sum::<usize>());
        assert_capped(&spans(&rows), cap.parse().unwrap());
    }
}

#[test]
fn lanes_hold_their_number_of_plays_at_every_instant() {
    let place = Place::new();
    let text = forks_and_joins();
    let some: String = text.split_inclusive('\n').take(REQUESTS * 200).collect();
    place.file("trace.jsonl", some);
    for lanes in ["1", "5"] {
        let rows = place.rows(&[
            "trace.jsonl",
            "--trace-format",
            "agentic-mooncake",
            "--trace-block-size",
            "32",
            "--agentic-lanes",
            lanes,
            "--extra-engine-args",
            r#"{"block_size":16}"#,
        ]);
        assert_eq!(rows.len(), REQUESTS * 200);
        assert_capped(&spans(&rows), lanes.parse().unwrap());
    }
}

#[test]
fn a_rejected_request_does_not_hold_up_those_that_wait_for_it() {
    let place = Place::new();
    let row = |id: &str, tokens: u32, on: &str| {
        let ids = (0..tokens.div_ceil(512)).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
        format!(
            "{{\"request_id\":\"{id}\",\"timestamp\":0,\"input_length\":{tokens},\"output_length\":2,\
             \"hash_ids\":[{ids}],\"wait_for\":[{on}]}}\n"
        )
    };
    place.file("trace.jsonl", [row("a", 9000, ""), row("b", 100, "\"a\"")].concat());
    let rows = place.rows(&[
        "trace.jsonl",
        "--trace-format",
        "agentic_mooncake",
        "--extra-engine-args",
        r#"{"block_size":16,"max_model_len":4096}"#,
    ]);
    let ends: Vec<_> = rows.iter().map(|row| row["terminal_status"].as_str().unwrap()).collect();
    assert_eq!(ends, ["rejected", "completed"]);
}

#[test]
fn a_delta_trace_finds_its_own_answers_in_the_cache() {
    let place = Place::new();
    let text = r#"{"session_id":"s","timestamp":0,"input_length":512,"output_length":65,"hash_ids":[1]}
{"session_id":"s","delay":5,"input_length":63,"output_length":2,"hash_ids":[2]}
"#;
    place.file("trace.jsonl", text);
    let engine = ["--extra-engine-args", r#"{"block_size":16}"#];
    let rows = place.rows(&[&["trace.jsonl", "--trace-format", "mooncake-delta"], &engine[..]].concat());
    assert_eq!((&rows[1]["input_length"], &rows[1]["turn_index"]), (&640.into(), &1.into()));
    // 512 of the prompt and four blocks of the answer; the last token of an answer is never computed.
    assert_eq!(rows[1]["reused_input_tokens"], 576);
}
