//! The offline commands of the published documentation, flag by flag, give what the documentation says they give.

use serde_json::Value;

use crate::place::{Place, number};

/// Runs `dynosim replay` and gives its report and what it noted.
fn run(place: &Place, args: &[&str]) -> (Value, String) {
    let ran = place.run(&[&["replay"], args, &["--replay-mode", "offline", "--report-json", "report.json"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.ends_with("Saved full report to: report.json\n"), "{}", ran.stdout);
    (place.json("report.json"), ran.stderr)
}

#[test]
fn a_trace_on_four_workers() {
    let place = Place::new();
    place.file(
        "trace.jsonl",
        r#"{"timestamp": 0, "input_length": 1755, "output_length": 500, "hash_ids": [0, 1, 2, 3]}
{"timestamp": 0, "input_length": 2048, "output_length": 128, "hash_ids": [9, 10, 11, 12]}
"#,
    );
    let args = ["trace.jsonl", "--num-workers", "4", "--router-mode", "round_robin", "--trace-block-size", "512"];
    let (report, notes) = run(&place, &[&args[..], &["--extra-engine-args", r#"{"block_size":64}"#]].concat());
    assert_eq!((&report["completed_requests"], &report["total_output_tokens"]), (&2.into(), &628.into()));
    assert_eq!(notes, "");
}

#[test]
fn fixed_shapes_at_fixed_concurrency() {
    let args = ["--input-tokens", "5000", "--output-tokens", "500", "--request-count", "100", "--num-workers", "1"];
    let more = ["--arrival-interval-ms", "1.0", "--replay-concurrency", "10"];
    let engine = ["--extra-engine-args", r#"{"block_size":512}"#];
    let (report, notes) = run(&Place::new(), &[&args[..], &more, &engine].concat());
    assert_eq!((&report["completed_requests"], &report["total_input_tokens"]), (&100.into(), &500_000.into()));
    // The documentation gives both flags; only one of them can count.
    assert_eq!(notes, "note: --replay-concurrency ignores arrival times, --arrival-interval-ms among them\n");
}

#[test]
fn sessions_with_a_shared_prefix() {
    let args = ["--input-tokens", "5000", "--output-tokens", "50", "--request-count", "40", "--turns-per-session", "3"];
    let more = ["--shared-prefix-ratio", "0.5", "--num-prefix-groups", "8", "--inter-turn-delay-ms", "250"];
    let engine = ["--replay-concurrency", "32", "--extra-engine-args", r#"{"block_size":512}"#];
    let (report, notes) = run(&Place::new(), &[&args[..], &more, &engine].concat());
    // request_count * turns_per_session
    assert_eq!((&report["completed_requests"], notes.as_str()), (&120.into(), ""));
    assert!(number(&report, "prefix_cache_reused_ratio") > 0.4);
}

#[test]
fn sglang_with_its_page_size() {
    let json = r#"{"engine_type": "sglang", "num_gpu_blocks": 512, "sglang": {"page_size": 2}}"#;
    let args = ["--input-tokens", "200", "--output-tokens", "20", "--request-count", "5"];
    let (report, notes) = run(&Place::new(), &[&args[..], &["--extra-engine-args", json]].concat());
    assert_eq!((&report["completed_requests"], notes.as_str()), (&5.into(), ""));
    assert_eq!(report["kv_eviction_policy"], "lru");
}

#[test]
fn sessions_of_a_trace_wait_for_delays_given_or_inferred() {
    let place = Place::new();
    place.file(
        "trace.jsonl",
        r#"{"session_id":"session-a","timestamp":1000,"input_length":2048,"output_length":128,"hash_ids":[1,2,3,4]}
{"session_id":"session-a","delay_ms":50,"input_length":2560,"output_length":128,"hash_ids":[1,2,3,4,5]}
{"session_id":"session-b","timestamp":1010,"input_length":1024,"output_length":64,"hash_ids":[9,10]}
{"session_id":"session-b","timestamp":1060,"input_length":1536,"output_length":64,"hash_ids":[9,10,11]}
"#,
    );
    let rows = place.rows(&["trace.jsonl", "--arrival-speedup-ratio", "1"]);
    for session in ["session-a", "session-b"] {
        let turns: Vec<_> = rows.iter().filter(|row| row["session_id"] == session).collect();
        let pause = number(turns[1], "arrival_time_ms") - number(turns[0], "last_token_ms");
        assert!((pause - 50.0).abs() < 1e-6, "{session}: {pause}");
        assert!(number(turns[1], "reused_input_tokens") >= 960.0);
    }
}

#[test]
fn a_trace_on_four_workers_behind_the_kv_router() {
    let place = Place::new();
    let row =
        |at: u32, ids: &str| format!(r#"{{"timestamp":{at},"input_length":1755,"output_length":50,"hash_ids":{ids}}}"#);
    let lines: Vec<_> = (0..40).map(|n| row(n * 300, if n % 3 == 0 { "[0,1,2,3]" } else { "[7,8,9,10]" })).collect();
    place.file("trace.jsonl", lines.join("\n"));
    let args = ["trace.jsonl", "--num-workers", "4", "--router-mode", "kv_router", "--trace-block-size", "512"];
    let engine = ["--extra-engine-args", r#"{"block_size":64}"#];
    for policy in ["fcfs", "lcfs", "wspt"] {
        let router = format!(r#"{{"router_queue_policy":"{policy}","router_temperature":0.0}}"#);
        let (report, notes) = run(&place, &[&args[..], &engine, &["--router-config", &router]].concat());
        assert_eq!((&report["completed_requests"], notes.as_str()), (&40.into(), ""));
        // All but the first of each prefix, of which only the last block is computed again.
        assert!(number(&report, "prefix_cache_reused_ratio") > 0.9);
    }
}

#[test]
fn two_prefill_and_six_decode_workers() {
    let args =
        ["--input-tokens", "4096", "--output-tokens", "256", "--request-count", "100", "--replay-concurrency", "32"];
    let pools = ["--num-prefill-workers", "2", "--num-decode-workers", "6", "--router-mode", "kv_router"];
    let prefill = ["--prefill-engine-args", r#"{"worker_type":"prefill","block_size":512}"#];
    let decode = ["--decode-engine-args", r#"{"worker_type":"decode","block_size":512}"#];
    let router = ["--router-config", r#"{"router_queue_policy":"wspt"}"#, "--arrival-interval-ms", "1.0"];
    let place = Place::new();
    let (report, _) = run(&place, &[&args[..], &pools, &prefill, &decode, &router].concat());
    assert_eq!((&report["completed_requests"], &report["total_output_tokens"]), (&100.into(), &25_600.into()));
    assert_eq!((&report["prefill_gpus_per_worker"], &report["decode_gpus_per_worker"]), (&1.into(), &1.into()));
    assert_eq!(report["committed_prefill_tokens"], 409_600);
}

#[test]
fn a_choice_is_explained() {
    let place = Place::new();
    let args =
        ["--input-tokens", "640", "--output-tokens", "4", "--request-count", "3", "--arrival-interval-ms", "500"];
    let router =
        ["--router-mode", "kv_router", "--num-workers", "3", "--shared-prefix-ratio", "1", "--num-prefix-groups", "1"];
    for id in ["2", "00000000-0000-8000-8000-000000000002"] {
        let command = [&["replay", "--report-json", "r.json", "--explain-request", id], &args[..], &router].concat();
        let ran = place.run(&command);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
        let (_, text) = ran.stdout.split_once(&format!("Request {id}\n")).expect("an explanation");
        assert_eq!(
            text.lines().filter(|line| line.starts_with(['*', ' ']) && !line.contains("rank")).count(),
            3,
            "{text}"
        );
        assert!(text.contains(": the lowest cost\n"), "{text}");
    }
}
