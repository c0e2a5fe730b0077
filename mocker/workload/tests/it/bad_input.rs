//! Whatever is wrong with the input is said in one line: where, which field, its value and what is allowed.

use dynosim_workload::{
    Arrivals, Excess, GenerateOptions, RowRules, SessionArrivals, SharedPrefix, Synthetic, SyntheticOptions, Trace,
    TraceFormat, TraceOptions, generate,
};

fn message(text: &str, options: &TraceOptions) -> String {
    match Trace::from_bytes("trace.jsonl", text.as_bytes().to_vec(), options) {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    }
}

const GOOD: &str = r#"{"timestamp":5,"input_length":3,"output_length":1,"hash_ids":[1]}"#;

/// `{GOOD}` stands for a good row.
fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let text = text.replace("{GOOD}", GOOD);
        assert_eq!(message(&text, &TraceOptions::default()), *expected, "{text}");
    }
}

/// Texts that are no rows at all.
const SYNTAX: &[(&str, &str)] = &[
    ("", "trace.jsonl: no requests (allowed: one or more rows)"),
    ("\n \n", "trace.jsonl: no requests (allowed: one or more rows)"),
    ("{GOOD}\n\nnonsense", "trace.jsonl:3: not JSON at column 2: expected ident, near `onsense`"),
    (
        r#"{"timestamp":NaN,"output_length":1,"hash_ids":[1]}"#,
        "trace.jsonl:1: timestamp: not JSON at column 14: expected value, near `NaN,\"output_`",
    ),
    (
        r#"{"timestamp":1e999,"output_length":1,"hash_ids":[1]}"#,
        "trace.jsonl:1: timestamp: not JSON at column 18: number out of range, near `9,\"output_le`",
    ),
    (
        r#"{"timestamp":-Infinity,"output_length":1,"hash_ids":[1]}"#,
        "trace.jsonl:1: timestamp: not JSON at column 15: invalid number, near `Infinity,\"ou`",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":[1]"#,
        "trace.jsonl:1: not JSON at column 47: EOF while parsing an object, near `]`",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":[1]} {}"#,
        "trace.jsonl:1: not JSON at column 50: trailing characters, near `{}`",
    ),
    ("[1, 2]", "trace.jsonl:1: a list is no row (allowed: a JSON object)"),
    ("17", "trace.jsonl:1: 17 is no row (allowed: a JSON object)"),
];

#[test]
fn a_line_that_is_no_json_object_is_named() {
    check(SYNTAX);
}

/// Times, lengths and lists.
const VALUES: &[(&str, &str)] = &[
    (r#"{"timestamp":1,"hash_ids":[1]}"#, "trace.jsonl:1: output_length: missing (allowed: 1 or more)"),
    (
        r#"{"timestamp":1,"output_length":1}"#,
        "trace.jsonl:1: hash_ids: missing (allowed: a list of integers, 0 or more)",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":null}"#,
        "trace.jsonl:1: hash_ids: missing (allowed: a list of integers, 0 or more)",
    ),
    (
        "{GOOD}\n{\"input_length\":3,\"output_length\":1,\"hash_ids\":[1]}",
        "trace.jsonl:2: timestamp: missing (allowed: a number of ms, 0 or more; only later turns and replay at \
             fixed concurrency do without)",
    ),
    (
        r#"{"timestamp":"now","output_length":1,"hash_ids":[1]}"#,
        "trace.jsonl:1: timestamp: `now` is of the wrong type (allowed: a number of ms, 0 or more)",
    ),
    (
        r#"{"created_time":-1,"output_length":1,"hash_ids":[1]}"#,
        "trace.jsonl:1: created_time: -1 is out of range (allowed: 0 to 9000000000000 ms)",
    ),
    (
        r#"{"timestamp":9000000000001,"output_length":1,"hash_ids":[1]}"#,
        "trace.jsonl:1: timestamp: 9000000000001 is out of range (allowed: 0 to 9000000000000 ms)",
    ),
    (
        r#"{"timestamp":1,"created_time":1,"output_length":1,"hash_ids":[1]}"#,
        "trace.jsonl:1: created_time: given twice, the other time as `timestamp` (allowed: once)",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":[1],"output_length":1}"#,
        "trace.jsonl:1: output_length: given twice, the other time as `output_length` (allowed: once)",
    ),
    (
        r#"{"timestamp":1,"output_length":0,"hash_ids":[1]}"#,
        "trace.jsonl:1: output_length: 0 is out of range (allowed: 1 or more)",
    ),
    (
        r#"{"timestamp":1,"output_tokens":-4,"hash_ids":[1]}"#,
        "trace.jsonl:1: output_tokens: -4 is out of range (allowed: 1 or more)",
    ),
    (
        r#"{"timestamp":1,"output_tokens":2.5,"hash_ids":[1]}"#,
        "trace.jsonl:1: output_tokens: 2.5 is of the wrong type (allowed: an integer, 1 or more)",
    ),
    (
        r#"{"timestamp":1,"output_length":4294967296,"hash_ids":[1]}"#,
        "trace.jsonl:1: output_length: 4294967296 is out of range (allowed: 1 to 4294967295)",
    ),
    (
        r#"{"timestamp":1,"output_length":67108864,"hash_ids":[1]}"#,
        "trace.jsonl:1: output_length: 67108864 is out of range (allowed: up to 67108864 tokens with the 512 \
             of the prompt)",
    ),
    (
        r#"{"timestamp":1,"input_length":0,"output_length":1,"hash_ids":[1]}"#,
        "trace.jsonl:1: input_length: 0 is out of range (allowed: 1 or more)",
    ),
    (
        r#"{"timestamp":1,"input_tokens":513,"output_length":1,"hash_ids":[1]}"#,
        "trace.jsonl:1: input_tokens: 513 is out of range (allowed: 1 to 512, 1 hash ids of 512 tokens)",
    ),
    (
        r#"{"timestamp":1,"input_length":5,"output_length":1,"hash_ids":[]}"#,
        "trace.jsonl:1: hash_ids: an empty list is out of range (allowed: one id or more)",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":[1,-2]}"#,
        "trace.jsonl:1: hash_ids: -2 is out of range (allowed: a list of integers, 0 or more)",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":[1,"x"]}"#,
        "trace.jsonl:1: hash_ids: `x` is of the wrong type (allowed: a list of integers, 0 or more)",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":7}"#,
        "trace.jsonl:1: hash_ids: 7 is of the wrong type (allowed: a list of integers, 0 or more)",
    ),
    (
        r#"{"timestamp":1,"output_length":2,"hash_ids":[1],"output_token_ids":[4]}"#,
        "trace.jsonl:1: output_token_ids: 1 ids is out of range (allowed: 2, the output length)",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":[1],"output_token_ids":[4294967296]}"#,
        "trace.jsonl:1: output_token_ids: 4294967296 is out of range (allowed: a list of token ids, 0 to \
             4294967295)",
    ),
];

#[test]
fn a_bad_time_length_or_list_is_named() {
    check(VALUES);
}

/// Sessions and priorities.
const SESSIONS: &[(&str, &str)] = &[
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":[1],"session_id":8}"#,
        "trace.jsonl:1: session_id: 8 is of the wrong type (allowed: a string)",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":[1],"priority":2147483648}"#,
        "trace.jsonl:1: priority: 2147483648 is out of range (allowed: -2147483648 to 2147483647)",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":[1],"strict_priority":-1}"#,
        "trace.jsonl:1: strict_priority: -1 is out of range (allowed: 0 to 4294967295)",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":[1],"policy_class":{"a":1}}"#,
        "trace.jsonl:1: policy_class: an object is of the wrong type (allowed: a string)",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":[1],"delay_ms":2}"#,
        "trace.jsonl:1: delay: 2 is out of range (allowed: 0 on the first turn of a session)",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":[1],"session_id":"s","delay":0.5}"#,
        "trace.jsonl:1: delay: 0.5 is out of range (allowed: 0 on the first turn of a session)",
    ),
    (
        r#"{"timestamp":1,"output_length":1,"hash_ids":[1],"delay":-2}"#,
        "trace.jsonl:1: delay: -2 is out of range (allowed: 0 to 9000000000000 ms)",
    ),
    (
        "{\"session_id\":\"s\",\"timestamp\":7.5,\"output_length\":1,\"hash_ids\":[1]}\n{GOOD}\n\
             {\"session_id\":\"s\",\"timestamp\":7,\"output_length\":1,\"hash_ids\":[1]}",
        "trace.jsonl:3: timestamp: 7 is out of range (allowed: 7.5 or more, the timestamp of the session's turn \
             before)",
    ),
];

#[test]
fn a_bad_session_or_priority_is_named() {
    check(SESSIONS);
}

#[test]
fn lines_that_are_no_text_are_named() {
    let mut bytes = br#"{"timestamp":1,"output_length":1,"hash_ids":[1],"session_id":""#.to_vec();
    bytes.extend_from_slice(b"\xff\"}\n");
    let error = Trace::from_bytes("trace.jsonl", bytes, &TraceOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "trace.jsonl:1: byte 63 is not UTF-8 (allowed: UTF-8 text)");

    let error = Trace::from_bytes("trace.jsonl", vec![b'x'; (16 << 20) + 1], &TraceOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "trace.jsonl:1: the line is longer than 16777216 bytes (allowed: up to that)");
}

#[test]
fn bad_azure_files_are_named() {
    let options = TraceOptions { format: TraceFormat::Azure, ..TraceOptions::default() };
    let header = "TIMESTAMP,ContextTokens,GeneratedTokens";
    let cases = [
        (String::new(), "trace.jsonl: no requests (allowed: one or more rows)"),
        (format!("{header}\n"), "trace.jsonl: no requests (allowed: one or more rows)"),
        (
            "2023-11-16 18:17:03.9799600,1,1\n".to_owned(),
            "trace.jsonl:1: header: `2023-11-16 18:17:03.9799600,1,1` is out of range (allowed: \
             TIMESTAMP,ContextTokens,GeneratedTokens)",
        ),
        (
            format!("{header}\n2023-11-16 18:17:03,1,1\n2023-11-16 18:17:03,1,-1\n"),
            "trace.jsonl:3: GeneratedTokens: `-1` is of the wrong type (allowed: an integer, 1 or more)",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(message(&text, &options), expected, "{text}");
    }
}

#[test]
fn bad_trace_options_are_named() {
    let rules = |trace_block_size| RowRules { trace_block_size, excess: Excess::Reject };
    let base = TraceOptions::default();
    let speedup = |arrival_speedup_ratio| TraceOptions { arrival_speedup_ratio, ..base };
    let cases = [
        (speedup(0.0), "arrival_speedup_ratio: 0 is out of range (allowed: finite and above 0)"),
        (speedup(f64::NAN), "arrival_speedup_ratio: NaN is out of range (allowed: finite and above 0)"),
        (speedup(f64::INFINITY), "arrival_speedup_ratio: inf is out of range (allowed: finite and above 0)"),
        (TraceOptions { rules: rules(0), ..base }, "trace_block_size: 0 is out of range (allowed: 1 to 67108864)"),
        (TraceOptions { engine_block_size: 0, ..base }, "block_size: 0 is out of range (allowed: 1 to 67108864)"),
        (
            TraceOptions { format: TraceFormat::Dynamo, ..base },
            "trace format `dynamo` is no list of sessions; `open` reads it",
        ),
    ];
    for (options, expected) in cases {
        assert_eq!(message("", &options), expected);
    }
    let missing = Trace::open("/nowhere/trace.jsonl".as_ref(), &base).unwrap_err().to_string();
    assert_eq!(missing, "/nowhere/trace.jsonl: No such file or directory (os error 2)");
}

#[test]
fn timestamps_may_be_missing_at_fixed_concurrency() {
    let text = r#"{"output_length":1,"hash_ids":[1]}"#;
    let options = TraceOptions { arrivals: Arrivals::InOrder, ..TraceOptions::default() };
    assert_eq!(message(text, &options), "no error");
}

#[test]
fn bad_synthetic_options_are_named() {
    let base = SyntheticOptions::default();
    let ratio = |ratio| SyntheticOptions { shared_prefix: SharedPrefix { ratio, groups: 1 }, ..base };
    let arrivals = |arrivals| SyntheticOptions { arrivals, ..base };
    let cases = [
        (SyntheticOptions { input_tokens: 0, ..base }, "input_tokens: 0 is out of range (allowed: 1 or more)"),
        (SyntheticOptions { output_tokens: 0, ..base }, "output_tokens: 0 is out of range (allowed: 1 or more)"),
        (SyntheticOptions { request_count: 0, ..base }, "request_count: 0 is out of range (allowed: 1 or more)"),
        (
            SyntheticOptions { turns_per_session: 0, ..base },
            "turns_per_session: 0 is out of range (allowed: 1 or more)",
        ),
        (
            SyntheticOptions { output_tokens: 1 << 26, ..base },
            "output_tokens: 67108864 is out of range (allowed: up to 67108864 tokens with the prompt)",
        ),
        (ratio(1.5), "shared_prefix_ratio: 1.5 is out of range (allowed: 0 to 1)"),
        (ratio(-0.1), "shared_prefix_ratio: -0.1 is out of range (allowed: 0 to 1)"),
        (ratio(f64::NAN), "shared_prefix_ratio: NaN is out of range (allowed: 0 to 1)"),
        (
            SyntheticOptions { inter_turn_delay_ms: -1.0, ..base },
            "inter_turn_delay_ms: -1 is out of range (allowed: 0 to 9000000000000 ms)",
        ),
        (SyntheticOptions { block_size: 0, ..base }, "block_size: 0 is out of range (allowed: 1 to 67108864)"),
        (
            arrivals(SessionArrivals::Interval { ms: f64::INFINITY }),
            "arrival_interval_ms: inf is out of range (allowed: 0 to 9000000000000 ms)",
        ),
        (
            arrivals(SessionArrivals::Poisson { rate_rps: 0.0, seed: 1 }),
            "request_rate: 0 is out of range (allowed: 0.000001 to 1000000000 per second)",
        ),
    ];
    for (options, expected) in cases {
        assert_eq!(Synthetic::new(options).unwrap_err().to_string(), expected);
    }
}

#[test]
fn bad_generator_options_are_named() {
    let base = GenerateOptions::default();
    let cases = [
        (GenerateOptions { requests: 0, ..base }, "requests: 0 is out of range (allowed: 1 to 4294967294)"),
        (GenerateOptions { block_size: 0, ..base }, "block_size: 0 is out of range (allowed: 1 to 1048576)"),
        (GenerateOptions { groups: 0, ..base }, "groups: 0 is out of range (allowed: 1 to 1048576)"),
        (GenerateOptions { mean_turns: 0.5, ..base }, "mean_turns: 0.5 is out of range (allowed: 1 to 1000000)"),
        (GenerateOptions { zipf: f64::NAN, ..base }, "zipf: NaN is out of range (allowed: 0 to 10)"),
        (
            GenerateOptions { conversation_rate_rps: 0.0, ..base },
            "conversation_rate_rps: 0 is out of range (allowed: 0.000001 to 1000000 per second)",
        ),
        (
            GenerateOptions { max_input_tokens: 0, ..base },
            "max_input_tokens: 0 is out of range (allowed: 1 to 1073741824)",
        ),
    ];
    for (options, expected) in cases {
        assert_eq!(generate(&options, &mut Vec::new()).unwrap_err().to_string(), expected);
    }
}
