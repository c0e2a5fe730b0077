//! Trace files that cannot be used.

use crate::place::Place;
use crate::refused::Table;

const GOOD: &str = r#"{"timestamp":0,"input_length":100,"output_length":2,"hash_ids":[1]}"#;

/// Content and message; `GOOD` stands for a good row.
#[rustfmt::skip]
const BAD: &[(&str, &str)] = &[
    ("", "trace.jsonl: no requests (allowed: one or more rows)"),
    ("\n\n", "trace.jsonl: no requests (allowed: one or more rows)"),
    ("GOOD\nGOOD\n\nnonsense\n", "trace.jsonl:4: not JSON at column 2: expected ident, near `onsense`"),
    ("GOOD\n[1]\n", "trace.jsonl:2: a list is no row (allowed: a JSON object)"),
    ("GOOD GOOD", "trace.jsonl:1: not JSON at column 69: trailing characters, near `{\"timestamp\"`"),
    (r#"{"timestamp":0,"input_length":1,"#, "trace.jsonl:1: not JSON at column 32: EOF while parsing a value, near `,`"),
    (r#"{"timestamp":0,"hash_ids":[1]}"#, "trace.jsonl:1: output_length: missing (allowed: 1 or more)"),
    (r#"{"timestamp":0,"output_length":1}"#, "trace.jsonl:1: hash_ids: missing (allowed: a list of integers, 0 or more)"),
    (r#"{"output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: timestamp: missing (allowed: a number of ms, 0 or more; only later turns and replay at fixed concurrency do without)"),
    (r#"{"timestamp":"0","output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: timestamp: `0` is of the wrong type (allowed: a number of ms, 0 or more)"),
    (r#"{"timestamp":-1,"output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: timestamp: -1 is out of range (allowed: 0 to 9000000000000 ms)"),
    (r#"{"timestamp":1e300,"output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: timestamp: 1e300 is out of range (allowed: 0 to 9000000000000 ms)"),
    (r#"{"timestamp":0,"output_length":0,"hash_ids":[1]}"#, "trace.jsonl:1: output_length: 0 is out of range (allowed: 1 or more)"),
    (r#"{"timestamp":0,"output_length":1.5,"hash_ids":[1]}"#, "trace.jsonl:1: output_length: 1.5 is of the wrong type (allowed: an integer, 1 or more)"),
    (r#"{"timestamp":0,"output_length":99999999999,"hash_ids":[1]}"#, "trace.jsonl:1: output_length: 99999999999 is out of range (allowed: 1 to 4294967295)"),
    (r#"{"timestamp":0,"input_length":0,"output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: input_length: 0 is out of range (allowed: 1 or more)"),
    (r#"{"timestamp":0,"input_length":600,"output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: input_length: 600 is out of range (allowed: 1 to 512, 1 hash ids of 512 tokens)"),
    (r#"{"timestamp":0,"output_length":1,"hash_ids":[]}"#, "trace.jsonl:1: hash_ids: an empty list is out of range (allowed: one id or more)"),
    (r#"{"timestamp":0,"output_length":1,"hash_ids":[1,-1]}"#, "trace.jsonl:1: hash_ids: -1 is out of range (allowed: a list of integers, 0 or more)"),
    (r#"{"timestamp":0,"output_length":1,"hash_ids":[1],"output_tokens":1}"#, "trace.jsonl:1: output_tokens: given twice, the other time as `output_length` (allowed: once)"),
    (r#"{"timestamp":0,"output_length":1,"hash_ids":[1],"output_token_ids":[]}"#, "trace.jsonl:1: output_token_ids: 0 ids is out of range (allowed: 1, the output length)"),
    (r#"{"timestamp":0,"output_length":1,"hash_ids":[1],"session_id":1}"#, "trace.jsonl:1: session_id: 1 is of the wrong type (allowed: a string)"),
    (r#"{"timestamp":0,"output_length":1,"hash_ids":[1],"session_id":"s","delay_ms":5}"#, "trace.jsonl:1: delay: 5 is out of range (allowed: 0 on the first turn of a session)"),
    (r#"{"timestamp":0,"output_length":1,"hash_ids":[1],"priority":3000000000}"#, "trace.jsonl:1: priority: 3000000000 is out of range (allowed: -2147483648 to 2147483647)"),
    ("{\"session_id\":\"s\",\"timestamp\":9,\"output_length\":1,\"hash_ids\":[1]}\n{\"session_id\":\"s\",\"timestamp\":8,\"output_length\":1,\"hash_ids\":[1]}", "trace.jsonl:2: timestamp: 8 is out of range (allowed: 9 or more, the timestamp of the session's turn before)"),
];

#[test]
fn bad_rows_are_named_with_file_line_field_value_and_what_is_allowed() {
    let mut table = Table::default();
    for (content, message) in BAD {
        let place = Place::new();
        place.file("trace.jsonl", content.replace("GOOD", GOOD));
        table.row(&place, &["replay", "trace.jsonl"], message);
    }
    table.finish(20);
}

#[test]
fn bytes_that_are_no_text_and_endless_lines_are_named() {
    let place = Place::new();
    let mut table = Table::default();
    place.file("trace.jsonl", b"{\"timestamp\":0,\"session_id\":\"\xFF\"}");
    table.row(&place, &["replay", "trace.jsonl"], "trace.jsonl:1: byte 30 is not UTF-8 (allowed: UTF-8 text)");
    place.file("trace.jsonl", vec![b' '; (16 << 20) + 1]);
    let message = "trace.jsonl:1: the line is longer than 16777216 bytes (allowed: up to that)";
    table.row(&place, &["replay", "trace.jsonl"], message);
    table.row(&place, &["trace", "stats", "trace.jsonl"], message);
    table.finish(3);
}

#[test]
fn bad_azure_rows_are_named_too() {
    let place = Place::new();
    let mut table = Table::default();
    let args = ["replay", "trace.csv", "--trace-format", "azure"];
    place.file("trace.csv", "time,in,out\n");
    let message =
        "trace.csv:1: header: `time,in,out` is out of range (allowed: TIMESTAMP,ContextTokens,GeneratedTokens)";
    table.row(&place, &args, message);
    place.file("trace.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1\n");
    table.row(&place, &args, "trace.csv:2: 2 columns (allowed: 3)");
    place.file("trace.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-02-30 18:17:03,1,1\n");
    let message = "trace.csv:2: TIMESTAMP: `2023-02-30 18:17:03` is out of range (allowed: YYYY-MM-DD HH:MM:SS with \
                   up to 9 decimals, 1970 to 2254)";
    table.row(&place, &args, message);
    table.finish(3);
}

#[test]
fn a_trace_on_standard_input_is_judged_like_a_file() {
    let place = Place::new();
    place.file("trace.jsonl", "{}");
    let mut command = crate::place::dynosim();
    let file = std::fs::File::open(place.path("trace.jsonl")).unwrap();
    command.args(["replay", "-"]).stdin(file);
    let ran = place.run_command(command);
    let message = "error: -:1: output_length: missing (allowed: 1 or more)\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), message));
    assert_eq!(place.names(), ["trace.jsonl"]);
}

#[test]
fn flags_that_mean_nothing_to_the_format_are_named() {
    let (place, mut table) = (Place::new(), Table::default());
    place.file("trace.jsonl", GOOD);
    let sharing = "has no effect without --trace-format applied_compute_agentic";
    let lanes = "has no effect without --trace-format agentic_mooncake or dynamo";
    let closed = "requests that wait for others say themselves when they are sent; --agentic-lanes limits plays";
    let cases: &[(&[&str], String)] = &[
        (&["--trace-shared-prefix-ratio", "0.5"], format!("--trace-shared-prefix-ratio: {sharing}")),
        (&["--trace-num-prefix-groups", "2"], format!("--trace-num-prefix-groups: {sharing}")),
        (&["--agentic-lanes", "2"], format!("--agentic-lanes: {lanes}")),
        (
            &["--trace-format", "agentic_mooncake", "--replay-concurrency", "4"],
            format!("--replay-concurrency: {closed}"),
        ),
        (
            &["--trace-format", "agentic_mooncake", "--agentic-lanes", "0"],
            "--agentic-lanes: 0 is out of range (allowed: 1 or more)".to_owned(),
        ),
        (
            &["--trace-format", "agentic_mooncake", "--lenient"],
            "--lenient: has no effect with --trace-format agentic_mooncake, which has no such prompts or refuses them"
                .to_owned(),
        ),
        (
            &["--trace-format", "applied_compute_agentic"],
            "--trace-format applied_compute_agentic: has no arrival times, so it needs --replay-concurrency".to_owned(),
        ),
        (
            &[
                "--trace-format",
                "applied_compute_agentic",
                "--replay-concurrency",
                "1",
                "--trace-shared-prefix-ratio",
                "2",
            ],
            "--trace-shared-prefix-ratio: 2 is out of range (allowed: 0 to 1)".to_owned(),
        ),
        (&["trace.jsonl"], "several trace files: only --trace-format dynamo takes them".to_owned()),
        (&["--trace-format", "dynamo", "trace.jsonl"], "trace.jsonl:1: schema: missing (allowed: a string)".to_owned()),
    ];
    for (flags, message) in cases {
        table.row(&place, &[&["replay", "trace.jsonl"], *flags].concat(), message);
    }
    table.finish(10);
}

#[test]
fn rows_that_wait_for_each_other_are_named() {
    let (place, mut table) = (Place::new(), Table::default());
    let row = |id: &str, on: &str| {
        format!("{{\"request_id\":\"{id}\",\"output_length\":1,\"hash_ids\":[1],\"wait_for\":[\"{on}\"]}}\n")
    };
    place.file("trace.jsonl", [row("a", "b"), row("b", "a")].concat());
    let message = "trace.jsonl:1: wait_for: `b` is out of range (allowed: no cycle; found `a`, `b`, `a`, each waiting \
                   for the next)";
    table.row(&place, &["replay", "trace.jsonl", "--trace-format", "agentic_mooncake"], message);
    table.row(&place, &["trace", "stats", "trace.jsonl", "--trace-format", "agentic_mooncake"], message);
    place.file("trace.jsonl", row("a", "x"));
    let message = "trace.jsonl:1: wait_for: `x` is out of range (allowed: the request_id of a row)";
    table.row(&place, &["replay", "trace.jsonl", "--trace-format", "agentic_mooncake"], message);
    table.finish(3);
}
