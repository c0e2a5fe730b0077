//! `--report-jsonl`: one row per request.

use serde_json::Value;

use crate::place::{Place, assert_close, number};
use crate::refused::SMALL;

/// The keys of a row, in the order in which they are written.
const KEYS: [&str; 26] = [
    "session_id",
    "turn_index",
    "uuid",
    "arrival_time_ms",
    "first_admit_ms",
    "first_token_ms",
    "last_token_ms",
    "ttft_ms",
    "ttst_ms",
    "e2e_latency_ms",
    "itl_ms",
    "input_length",
    "output_length",
    "reused_input_tokens",
    "prefill_worker_idx",
    "decode_worker_idx",
    "prefill_admit_ms",
    "source_held_ms",
    "destination_reserved_ms",
    "destination_activated_ms",
    "decode_admit_ms",
    "source_released_ms",
    "decode_reused_input_tokens",
    "prefill_route_overlap_tokens",
    "decode_route_overlap_tokens",
    "terminal_status",
];

#[test]
fn a_row_has_the_published_keys_in_their_order() {
    let place = Place::new();
    let rows = place.rows(&SMALL);
    assert_eq!(rows.len(), 1);
    let mut keys: Vec<_> = rows[0].as_object().unwrap().keys().map(String::as_str).collect();
    let text = place.read("rows.jsonl");
    keys.sort_by_key(|key| text.find(&format!("\"{key}\":")));
    assert_eq!(keys, KEYS);
}

#[test]
fn rows_of_an_aggregated_run_leave_the_moments_of_other_runs_null() {
    let row = Place::new().rows(&SMALL).remove(0);
    let null: Vec<_> = KEYS.into_iter().filter(|key| row[key].is_null()).collect();
    let expected: Vec<_> = [&["prefill_worker_idx"], &KEYS[16..25]].concat();
    assert_eq!(null, expected);
}

#[test]
fn rows_are_sorted_by_arrival_then_uuid_and_uuids_follow_the_input() {
    let place = Place::new();
    let row = |time: u32, id: u32| {
        format!("{{\"timestamp\":{time},\"input_length\":{id},\"output_length\":2,\"hash_ids\":[{id}]}}\n")
    };
    place.file("trace.jsonl", [row(9, 1), row(5, 2), row(9, 3), row(0, 4), row(5, 5)].concat());
    let rows = place.rows(&["trace.jsonl"]);
    let lengths: Vec<_> = rows.iter().map(|row| row["input_length"].as_u64().unwrap()).collect();
    assert_eq!(lengths, [4, 2, 5, 1, 3]);
    let keys: Vec<_> = rows.iter().map(|row| (number(row, "arrival_time_ms"), row["uuid"].as_str().unwrap())).collect();
    assert!(keys.is_sorted(), "{keys:?}");
    let by_input = |row: &Value| u64::from_str_radix(&row["uuid"].as_str().unwrap()[24..], 16).unwrap() + 1;
    assert!(rows.iter().all(|row| by_input(row) == row["input_length"]));
}

#[test]
fn rows_add_up_to_the_report() {
    let place = Place::new();
    place.run(&["trace", "generate", "-o", "trace.jsonl", "--requests", "200", "--sessions"]);
    let rows = place.rows(&["trace.jsonl", "--num-workers", "2"]);
    let report = place.json("report.json");
    let sum = |key: &str| rows.iter().map(|row| number(row, key)).sum::<f64>();
    assert_eq!(rows.len(), 200);
    assert_close(sum("input_length"), number(&report, "total_input_tokens"));
    assert_close(sum("output_length"), number(&report, "total_output_tokens"));
    assert_close(sum("ttft_ms") / 200.0, number(&report, "mean_ttft_ms"));
    assert_close(sum("e2e_latency_ms") / 200.0, number(&report, "mean_e2e_latency_ms"));
    assert_close(sum("reused_input_tokens") / sum("input_length"), number(&report, "prefix_cache_reused_ratio"));
    for row in &rows {
        let at = |key| number(row, key);
        assert!(at("arrival_time_ms") <= at("first_admit_ms") && at("first_admit_ms") < at("first_token_ms"));
        assert!(at("first_token_ms") <= at("last_token_ms") && at("last_token_ms") <= number(&report, "duration_ms"));
        assert_close(at("ttft_ms"), at("first_token_ms") - at("arrival_time_ms"));
        assert_close(at("e2e_latency_ms"), at("last_token_ms") - at("arrival_time_ms"));
    }
}

#[test]
fn round_robin_deals_requests_to_workers_in_turn() {
    let rows = Place::new().rows(&[
        "--input-tokens",
        "100",
        "--output-tokens",
        "2",
        "--request-count",
        "7",
        "--num-workers",
        "3",
    ]);
    let workers: Vec<_> = rows.iter().map(|row| row["decode_worker_idx"].as_u64().unwrap()).collect();
    assert_eq!(workers, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn rejected_requests_are_counted_and_say_why() {
    let place = Place::new();
    let row =
        |length: u32| format!("{{\"timestamp\":0,\"input_length\":{length},\"output_length\":2,\"hash_ids\":[1,2]}}\n");
    place.file("trace.jsonl", [row(100), row(900), row(101)].concat());
    let json = r#"{"num_gpu_blocks":8,"block_size":64}"#;
    let rows = place.rows(&["trace.jsonl", "--extra-engine-args", json]);
    let report = place.json("report.json");
    assert_eq!(report["num_requests"], 3);
    assert_eq!((&report["completed_requests"], &report["rejected_requests"]), (&2.into(), &1.into()));
    assert_eq!(report["total_input_tokens"], 201);
    let status: Vec<_> = rows.iter().map(|row| row["terminal_status"].as_str().unwrap()).collect();
    assert_eq!(status, ["completed", "rejected", "completed"]);
    assert_eq!(rows[1]["rejection"], "needs 15 KV blocks, the pool has 8");
    assert!(rows[1]["first_token_ms"].is_null() && rows[0].get("rejection").is_none());
    let ran = place.run(&["replay", "trace.jsonl", "--extra-engine-args", json, "--report-json", "report.json"]);
    assert!(ran.stdout.contains("\nRejected Requests: 1\n"), "{}", ran.stdout);
}

#[test]
fn a_turn_after_a_rejected_one_is_still_sent() {
    let place = Place::new();
    let row = |rest: &str| format!("{{\"session_id\":\"s\",\"output_length\":2,{rest}}}\n");
    let turns = [row(r#""timestamp":0,"hash_ids":[1,2]"#), row(r#""delay_ms":7,"input_length":10,"hash_ids":[1]"#)];
    place.file("trace.jsonl", turns.concat());
    let rows = place.rows(&["trace.jsonl", "--extra-engine-args", r#"{"num_gpu_blocks":8}"#]);
    assert_eq!((&rows[0]["terminal_status"], &rows[1]["terminal_status"]), (&"rejected".into(), &"completed".into()));
    assert_close(number(&rows[1], "arrival_time_ms"), 7.0);
    assert_eq!((&rows[1]["session_id"], &rows[1]["turn_index"]), (&"s".into(), &1.into()));
}

#[test]
fn lenient_cuts_prompts_to_what_their_hash_ids_cover_and_says_so() {
    let place = Place::new();
    place.file("trace.jsonl", r#"{"timestamp":0,"input_length":2000,"output_length":2,"hash_ids":[1,2]}"#);
    let args = ["replay", "trace.jsonl", "--lenient", "--report-json", "report.json", "--report-jsonl", "rows.jsonl"];
    let ran = place.run(&args);
    let note = "note: 1 rows had longer prompts than their hash ids cover and were cut\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), note));
    assert_eq!(place.jsonl("rows.jsonl")[0]["input_length"], 1024);
}
