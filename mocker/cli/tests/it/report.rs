//! The report: its keys, its place, its service-level part.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::place::{Place, assert_close, number};
use crate::refused::SMALL;

/// Distributions of the report; each has all of `STATISTICS` as prefixes.
const DISTRIBUTIONS: [&str; 6] =
    ["ttft_ms", "ttst_ms", "tpot_ms", "itl_ms", "e2e_latency_ms", "output_token_throughput_per_user"];
const STATISTICS: [&str; 9] = ["mean", "min", "max", "median", "p75", "p90", "p95", "p99", "std"];

/// The other keys of Dynamo 1.6.1.
const KEYS: [&str; 27] = [
    "committed_prefill_tokens",
    "completed_requests",
    "decode_gpus_per_worker",
    "decode_worker_seconds",
    "duration_ms",
    "first_admission_prefix_cache_reused_ratio",
    "gpu_hours",
    "input_throughput_tok_s",
    "kv_eviction_policy",
    "num_e2e_latency_samples",
    "num_requests",
    "num_tpot_samples",
    "num_ttft_samples",
    "output_throughput_tok_s",
    "power_coverage",
    "power_w",
    "prefill_gpus_per_worker",
    "prefill_worker_seconds",
    "prefix_cache_reused_ratio",
    "processed_output_tokens_per_s",
    "processed_tokens",
    "processed_tokens_per_s",
    "request_throughput_rps",
    "total_input_tokens",
    "total_output_tokens",
    "total_throughput_tok_s",
    "wall_time_ms",
];

/// What Dynamo adds when a service level is given.
const GOODPUT: [&str; 3] =
    ["goodput_completed_requests", "goodput_output_throughput_tok_s", "goodput_request_throughput_rps"];

/// What dynosim adds.
const OURS: [&str; 3] = ["num_forward_passes", "num_preemptions", "rejected_requests"];

fn published() -> BTreeSet<String> {
    let distributions = DISTRIBUTIONS.iter().flat_map(|name| STATISTICS.map(|prefix| format!("{prefix}_{name}")));
    KEYS.iter().map(ToString::to_string).chain(distributions).collect()
}

fn keys(report: &Value) -> BTreeSet<String> {
    report.as_object().expect("an object").keys().cloned().collect()
}

fn with(names: &[&str]) -> BTreeSet<String> {
    published().into_iter().chain(names.iter().map(ToString::to_string)).collect()
}

#[test]
fn the_report_is_flat_and_has_every_published_key_and_three_of_ours() {
    let report = Place::new().replay(&SMALL);
    assert_eq!(keys(&report), with(&OURS));
    assert!(report.as_object().unwrap().values().all(|value| !value.is_object() && !value.is_array()));
    let numbers = |key: &&String| !["kv_eviction_policy", "power_w", "power_coverage"].contains(&key.as_str());
    published().iter().filter(numbers).for_each(|key| assert!(number(&report, key).is_finite()));
}

#[test]
fn a_service_level_adds_goodput() {
    let report = Place::new().replay(&[&SMALL[..], &["--sla-e2e-ms", "1000"]].concat());
    assert_eq!(keys(&report), with(&[&OURS[..], &GOODPUT].concat()));
    assert_eq!(report["goodput_completed_requests"], 1);
    assert_close(number(&report, "goodput_request_throughput_rps"), number(&report, "request_throughput_rps"));
    let report = Place::new().replay(&[&SMALL[..], &["--sla-ttft-ms", "0.001"]].concat());
    assert_eq!(report["goodput_completed_requests"], 0);
}

#[test]
fn reasoning_adds_its_tokens() {
    let json = r#"{"reasoning":{"start_thinking_token_id":1,"end_thinking_token_id":2,"thinking_ratio":0.5}}"#;
    let args = ["--input-tokens", "100", "--output-tokens", "20", "--request-count", "2", "--extra-engine-args", json];
    let report = Place::new().replay(&args);
    assert_eq!(keys(&report), with(&[&OURS[..], &["total_reasoning_output_tokens"]].concat()));
    assert!(report["total_reasoning_output_tokens"].as_u64().unwrap() >= 2);
}

#[test]
fn the_shared_report_of_the_published_simulator_has_the_keys_listed_here() {
    let Some(shared) = crate::agreement::shared() else { return };
    let text = std::fs::read_to_string(shared.join("baseline/replay_161_a.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(keys(&report["summary"]), published());
}

#[test]
fn keys_are_sorted_and_indented_by_two() {
    let place = Place::new();
    place.replay(&SMALL);
    let text = place.read("report.json");
    let keys: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("  \"")?.split('"').next()).collect();
    assert!(keys.is_sorted() && keys.len() > 80 && text.ends_with("\n}\n"), "{text}");
}

#[test]
fn without_a_path_the_report_gets_a_dated_name_in_the_working_folder() {
    let place = Place::new();
    assert_eq!(place.run(&[&["replay"], &SMALL[..]].concat()).code, Some(0));
    let names = place.names();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_dated(&names[0]);
    assert_eq!(place.json(&names[0])["completed_requests"], 1);
}

#[test]
fn a_folder_as_path_gets_the_dated_name_and_stdout_says_where() {
    let place = Place::new();
    place.file("out/.keep", "");
    let ran = place.run(&[&["replay", "--report-json", "out"], &SMALL[..]].concat());
    assert_eq!(ran.code, Some(0));
    let names = crate::place::names(&place.path("out"));
    assert_dated(&names[1]);
    assert!(ran.stdout.ends_with(&format!("Saved full report to: out/{}\n", names[1])), "{}", ran.stdout);
}

#[track_caller]
fn assert_dated(name: &str) {
    let shape: String = name.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    assert_eq!(shape, "dynamo_replay_report_00000000_000000.json", "{name}");
}

#[test]
fn a_report_replaces_the_one_before() {
    let place = Place::new();
    place.file("report.json", "x".repeat(100_000));
    assert_eq!(place.replay(&SMALL)["completed_requests"], 1);
}

#[test]
fn gpus_are_counted_over_tensor_and_data_parallel_ranks() {
    let json = r#"{"engine":{},"tensor_parallel_size":4,"dp_size":2}"#;
    let report = Place::new().replay(&[&SMALL[..], &["--num-workers", "3", "--extra-engine-args", json]].concat());
    assert_eq!(report["decode_gpus_per_worker"], 8);
    let worker_seconds = 3.0 * number(&report, "duration_ms") / 1e3;
    assert_close(number(&report, "decode_worker_seconds"), worker_seconds);
    assert_close(number(&report, "gpu_hours"), worker_seconds * 8.0 / 3600.0);
}
