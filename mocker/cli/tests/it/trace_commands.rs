//! `dynosim trace`.

use std::process::Stdio;

use serde_json::Value;

use crate::golden;
use crate::place::{Place, assert_close, dynosim, number};
use crate::refused::Table;

/// Three rows, two of a session, the first block of all the same.
const ROWS: &str = r#"{"session_id":"s","timestamp":1000,"input_length":1024,"output_length":10,"hash_ids":[1,2]}
{"timestamp":1500,"input_length":600,"output_length":20,"hash_ids":[1,9]}
{"session_id":"s","delay_ms":5,"input_length":1536,"output_length":30,"hash_ids":[1,2,3]}
"#;

fn stats(place: &Place, args: &[&str]) -> Value {
    let ran = place.run(&[&["trace", "stats", "--json"], args].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&ran.stdout).expect("JSON")
}

#[test]
fn stats_count_requests_sessions_lengths_and_reuse() {
    let place = Place::new();
    place.file("trace.jsonl", ROWS);
    let found = stats(&place, &["trace.jsonl", "--block-size", "512"]);
    assert_eq!((&found["requests"], &found["sessions"], &found["max_turns"]), (&3.into(), &2.into(), &2.into()));
    assert_eq!(found["input_tokens"]["total"], 3160);
    assert_close(number(&found["output_tokens"], "max"), 30.0);
    assert_eq!((&found["blocks"], &found["distinct_blocks"]), (&6.into(), &3.into()));
    assert_close(number(&found, "reuse_ratio"), 3.0 * 512.0 / 3160.0);
}

#[test]
fn stats_for_people_look_as_ever() {
    let place = Place::new();
    place.file("trace.jsonl", ROWS);
    let ran = place.run(&["trace", "stats", "trace.jsonl"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    golden::assert_equal(&golden::file("trace_stats.txt"), &ran.stdout);
}

#[test]
fn stats_read_azure_traces_and_standard_input() {
    let place = Place::new();
    let csv = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.5,100,7\n2023-11-16 18:17:05.5,300,9\n";
    place.file("trace.csv", csv);
    let found = stats(&place, &["trace.csv", "--trace-format", "azure"]);
    assert_eq!((&found["requests"], &found["input_tokens"]["total"]), (&2.into(), &400.into()));
    assert_close(number(&found, "duration_s"), 2.0);
    let mut command = dynosim();
    command.args(["trace", "stats", "-", "--json", "--trace-format", "azure"]);
    command.stdin(std::fs::File::open(place.path("trace.csv")).unwrap()).stdout(Stdio::piped());
    let piped: Value = serde_json::from_str(&place.run_command(command).stdout).unwrap();
    assert_eq!(piped, found);
}

#[test]
fn equal_seeds_generate_equal_bytes_to_files_and_to_standard_output() {
    let place = Place::new();
    let generate = |name: &str, more: &[&str]| {
        let ran = place.run(&[&["trace", "generate", "-o", name, "--requests", "400"], more].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""));
        assert!(ran.stderr.starts_with("note: wrote 400 requests of "), "{}", ran.stderr);
        place.read(name)
    };
    let first = generate("a.jsonl", &[]);
    assert_eq!(generate("b.jsonl", &["--seed", "7"]), first);
    assert_ne!(generate("c.jsonl", &["--seed", "8"]), first);
    let ran = place.run(&["trace", "generate", "-o", "-", "--requests", "400"]);
    assert_eq!((ran.code, ran.stdout), (Some(0), first));
}

#[test]
fn the_generator_writes_the_same_trace_in_every_version() {
    let place = Place::new();
    place.run(&["trace", "generate", "-o", "open.jsonl", "--requests", "4"]);
    golden::assert_equal(&golden::file("generated.jsonl"), &place.read("open.jsonl"));
    place.run(&["trace", "generate", "-o", "closed.jsonl", "--requests", "4", "--sessions", "--mean-turns", "9"]);
    golden::assert_equal(&golden::file("generated_sessions.jsonl"), &place.read("closed.jsonl"));
}

#[test]
fn generated_traces_keep_their_options_and_can_be_replayed() {
    let place = Place::new();
    let options =
        ["--requests", "500", "--max-input-tokens", "4000", "--max-output-tokens", "200", "--block-size", "64"];
    for sessions in [&[][..], &["--sessions"]] {
        let ran = place.run(&[&["trace", "generate", "-o", "trace.jsonl"], &options[..], sessions].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let found = stats(&place, &["trace.jsonl", "--trace-block-size", "64"]);
        assert_eq!(found["requests"], 500);
        assert!(number(&found["input_tokens"], "max") <= 4000.0 && number(&found["output_tokens"], "max") <= 200.0);
        assert!(number(&found, "reuse_ratio") > 0.1);
        assert_eq!(number(&found, "max_turns") > 1.0, !sessions.is_empty());
        let report = place.replay(&["trace.jsonl", "--trace-block-size", "64", "--num-workers", "2"]);
        assert_eq!(report["completed_requests"], 500);
        assert_eq!(report["total_input_tokens"], found["input_tokens"]["total"]);
        assert_eq!(report["total_output_tokens"], found["output_tokens"]["total"]);
    }
}

#[test]
fn sessions_have_ids_and_delays_in_place_of_timestamps() {
    let place = Place::new();
    place.run(&["trace", "generate", "-o", "trace.jsonl", "--requests", "300", "--sessions"]);
    let rows = place.jsonl("trace.jsonl");
    assert!(rows.iter().all(|row| row["session_id"].is_string()));
    assert!(rows.iter().all(|row| row.get("timestamp").is_some() != row.get("delay_ms").is_some()));
    assert!(rows.iter().any(|row| row.get("delay_ms").is_some()));
}

#[test]
fn traces_are_converted_and_mean_the_same() {
    let place = Place::new();
    place.run(&["trace", "generate", "-o", "trace.jsonl", "--requests", "300", "--sessions"]);
    let ran = place.run(&[
        "trace",
        "convert",
        "trace.jsonl",
        "-o",
        "graph.jsonl",
        "--from",
        "mooncake",
        "--to",
        "agentic_mooncake",
    ]);
    let note = "note: wrote 300 requests to graph.jsonl, --trace-block-size 512\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", note));
    let ran = place.run(&[
        "trace",
        "convert",
        "graph.jsonl",
        "-o",
        "graph.jsonl",
        "--from",
        "agentic_mooncake",
        "--to",
        "agentic_mooncake",
        "--versioned",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(place.read("graph.jsonl").starts_with("{\"schema\":\"dynamo.agentic_mooncake\",\"version\":2,"));
    let sessions = place.rows(&["trace.jsonl"]);
    let graph = place.rows(&["graph.jsonl", "--trace-format", "agentic_mooncake"]);
    assert_eq!(sessions.len(), graph.len());
    for (session, graph) in sessions.iter().zip(&graph) {
        for key in ["session_id", "turn_index", "uuid", "arrival_time_ms", "last_token_ms", "reused_input_tokens"] {
            assert_eq!(session[key], graph[key], "{key}");
        }
    }
    assert_eq!(place.names(), ["graph.jsonl", "report.json", "rows.jsonl", "trace.jsonl"]);
}

#[test]
fn stats_read_every_format() {
    let place = Place::new();
    let applied = r#"{"num_turns":1,"input_prompt_length":90,"assistant_response_length":[1],"tool_call_output_length":[70],"tool_call_latency":[0.25],"final_assistant_response_length":7}"#;
    place.file("applied.jsonl", applied);
    let found = stats(&place, &["applied.jsonl", "--trace-format", "applied_compute_agentic"]);
    assert_eq!(
        (&found["requests"], &found["sessions"], &found["input_tokens"]["total"]),
        (&2.into(), &1.into(), &251.into())
    );
    let ran = place.run(&[
        "trace",
        "convert",
        "applied.jsonl",
        "-o",
        "-",
        "--from",
        "applied_compute_agentic",
        "--to",
        "mooncake",
    ]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 2));
    place.file(
        "graph.jsonl",
        r#"{"request_id":"a","timestamp":0,"output_length":1,"hash_ids":[1]}
{"request_id":"b","session_id":"s","output_length":1,"hash_ids":[1],"wait_for":["a"],"delay":1500}"#,
    );
    let found = stats(&place, &["graph.jsonl", "--trace-format", "agentic_mooncake"]);
    assert_eq!(found["requests"], 2);
    assert_close(number(&found, "duration_s"), 1.5);
}

#[test]
fn conversions_that_cannot_be_are_named_and_leave_nothing() {
    let (place, mut table) = (Place::new(), Table::default());
    place.file("trace.jsonl", ROWS);
    let convert = |more: &[&'static str]| [&["trace", "convert", "trace.jsonl", "-o", "out.jsonl"], more].concat();
    let pair = "azure to dynamo: cannot be converted (allowed: mooncake to mooncake-delta or agentic_mooncake; \
                mooncake-delta, applied_compute_agentic or azure to mooncake; dynamo to mooncake or agentic_mooncake; \
                agentic_mooncake to itself, from one form to the other)";
    table.row(&place, &convert(&["--from", "azure", "--to", "dynamo"]), pair);
    let versioned = "--versioned: has no effect without --to agentic_mooncake";
    table.row(&place, &convert(&["--from", "mooncake", "--to", "mooncake-delta", "--versioned"]), versioned);
    let sharing = "--trace-num-prefix-groups: has no effect without --from applied_compute_agentic";
    let flags = ["--from", "mooncake", "--to", "mooncake-delta", "--trace-num-prefix-groups", "1"];
    table.row(&place, &convert(&flags), sharing);
    let size = "--trace-block-size: has no effect with --from azure, whose rows have no hash ids";
    table.row(&place, &convert(&["--from", "azure", "--to", "mooncake", "--trace-block-size", "1"]), size);
    let size = "--trace-block-size: 0 is out of range (allowed: 1 to 67108864)";
    table.row(&place, &convert(&["--from", "mooncake", "--to", "mooncake-delta", "--trace-block-size", "0"]), size);
    let row = "trace.jsonl:1: request.replay: missing (allowed: an object; the trace was made without it)";
    place.file(
        "trace.jsonl",
        r#"{"schema":"dynamo.agent.trace.v1","event_type":"request_end","event_time_unix_ms":1,"request":{"request_id":"a"}}"#,
    );
    table.row(&place, &convert(&["--from", "dynamo", "--to", "mooncake"]), row);
    table.finish(6);
}
