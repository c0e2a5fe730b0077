//! Flags with values that cannot be used.

use crate::place::Place;
use crate::refused::{SMALL, Table};

/// Flags beside a small synthetic workload, and the message.
#[rustfmt::skip]
const BAD: &[(&[&str], &str)] = &[
    (&["--num-workers", "0"], "--num-workers: 0 is out of range (allowed: 1 to 65536)"),
    (&["--num-workers", "65537"], "--num-workers: 65537 is out of range (allowed: 1 to 65536)"),
    (&["--num-workers", "20000"], "--extra-engine-args: num_gpu_blocks: 327680000 blocks on 20000 ranks together are out of range (allowed: up to 268435456)"),
    (&["--num-workers", "2", "--extra-engine-args", r#"{"dp_size":40000}"#], "--num-workers: 2 workers of 40000 ranks are out of range (allowed: up to 65536 ranks)"),
    (&["--replay-concurrency", "0"], "--replay-concurrency: 0 is out of range (allowed: 1 to 4294967295)"),
    (&["--max-sim-time-seconds=-1"], "--max-sim-time-seconds: -1 is out of range (allowed: 0 to 3200000000)"),
    (&["--max-sim-time-seconds", "NaN"], "--max-sim-time-seconds: NaN is out of range (allowed: 0 to 3200000000)"),
    (&["--turns-per-session", "0"], "--turns-per-session: 0 is out of range (allowed: 1 or more)"),
    (&["--shared-prefix-ratio", "1.5", "--num-prefix-groups", "1"], "--shared-prefix-ratio: 1.5 is out of range (allowed: 0 to 1)"),
    (&["--inter-turn-delay-ms=-1"], "--inter-turn-delay-ms: -1 is out of range (allowed: 0 to 9000000000000 ms)"),
    (&["--arrival-interval-ms", "inf"], "--arrival-interval-ms: inf is out of range (allowed: 0 to 9000000000000 ms)"),
    (&["--arrival-interval-ms", "1e300"], "--arrival-interval-ms: 1e300 is out of range (allowed: 0 to 9000000000000 ms)"),
    (&["--request-rate", "1e-300"], "--request-rate: 1e-300 is out of range (allowed: 0.000001 to 1000000000 per second)"),
    (&["--request-rate", "0"], "--request-rate: 0 is out of range (allowed: 0.000001 to 1000000000 per second)"),
    (&["--sla-ttft-ms=-1"], "--sla-ttft-ms: -1 is out of range (allowed: 0 or more, finite)"),
    (&["--sla-itl-ms", "NaN"], "--sla-itl-ms: NaN is out of range (allowed: 0 or more, finite)"),
    (&["--sla-e2e-ms", "inf"], "--sla-e2e-ms: inf is out of range (allowed: 0 or more, finite)"),
    (&["--sla-e2e-ms", "1", "--fail-on-sla", "1.1"], "--fail-on-sla: 1.1 is out of range (allowed: 0 to 1)"),
    (&["--fail-on-sla", "0.9"], "--fail-on-sla: needs --sla-ttft-ms, --sla-itl-ms or --sla-e2e-ms"),
    (&["--trace-block-size", "512"], "--trace-block-size: has no effect without a trace file"),
    (&["--lenient"], "--lenient: has no effect without a trace file"),
    (&["--arrival-speedup-ratio", "2"], "--arrival-speedup-ratio: has no effect without a trace file"),
    (&["--arrival-speedup-ratio", "NaN"], "--arrival-speedup-ratio: has no effect without a trace file"),
    (&["--trace-format", "azure"], "--trace-format: has no effect without a trace file"),
];

#[test]
fn flags_out_of_range_or_without_effect_are_named() {
    let place = Place::new();
    let mut table = Table::default();
    for (flags, message) in BAD {
        table.row(&place, &[&["replay"], &SMALL[..], flags].concat(), message);
    }
    table.finish(15);
}

#[test]
fn a_workload_is_either_a_trace_or_three_sizes() {
    let place = Place::new();
    place.file("trace.jsonl", r#"{"timestamp":0,"output_length":1,"hash_ids":[1]}"#);
    let either = "give either one trace file, or all of --input-tokens, --output-tokens, and --request-count";
    let mut table = Table::default();
    table.row(&place, &["replay"], either);
    table.row(&place, &["replay", "--input-tokens", "1", "--output-tokens", "1"], either);
    table.row(&place, &["replay", "trace.jsonl", "--request-count", "1"], either);
    for (flag, value) in [
        ("--arrival-interval-ms", "1"),
        ("--request-rate", "1"),
        ("--turns-per-session", "1"),
        ("--shared-prefix-ratio", "0"),
        ("--num-prefix-groups", "0"),
        ("--inter-turn-delay-ms", "0"),
    ] {
        let message = format!("{flag}: has no effect with a trace file");
        table.row(&place, &["replay", "trace.jsonl", flag, value], &message);
    }
    for (flag, value, message) in [
        ("--trace-block-size", "0", "--trace-block-size: 0 is out of range (allowed: 1 to 67108864)"),
        ("--arrival-speedup-ratio", "0", "--arrival-speedup-ratio: 0 is out of range (allowed: finite and above 0)"),
        (
            "--arrival-speedup-ratio",
            "inf",
            "--arrival-speedup-ratio: inf is out of range (allowed: finite and above 0)",
        ),
    ] {
        table.row(&place, &["replay", "trace.jsonl", flag, value], message);
    }
    place.file("trace.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1,1\n");
    let azure = ["replay", "trace.csv", "--trace-format", "azure"];
    let why = "has no effect with --trace-format azure, whose rows have no hash ids";
    let block_size = format!("--trace-block-size: {why}");
    table.row(&place, &[&azure[..], &["--trace-block-size", "512"]].concat(), &block_size);
    table.row(&place, &[&azure[..], &["--lenient"]].concat(), &format!("--lenient: {why}"));
    let stats = ["trace", "stats", "trace.csv", "--trace-format", "azure", "--trace-block-size", "512"];
    table.row(&place, &stats, &block_size);
    let twice = "--check-determinism: reads the trace twice, so it needs a file and no pipe";
    table.row(&place, &["replay", "-", "--check-determinism"], twice);
    table.row(&place, &["replay", "/dev/null", "--check-determinism"], twice);
    let sizes = |which: usize| {
        let mut args = [&["replay"], &SMALL[..]].concat();
        args[2 * which + 2] = "0";
        args
    };
    for (which, flag) in ["--input-tokens", "--output-tokens", "--request-count"].iter().enumerate() {
        table.row(&place, &sizes(which), &format!("{flag}: 0 is out of range (allowed: 1 or more)"));
    }
    table.finish(15);
}

#[test]
fn bad_options_of_trace_commands_are_named_before_a_file_is_touched() {
    let place = Place::new();
    place.file("trace.jsonl", r#"{"timestamp":0,"output_length":1,"hash_ids":[1]}"#);
    let mut table = Table::default();
    for (flag, value, allowed) in [
        ("--requests", "0", "1 to 4294967294"),
        ("--block-size", "0", "1 to 1048576"),
        ("--groups", "0", "1 to 1048576"),
        ("--zipf", "NaN", "0 to 10"),
        ("--mean-turns", "0.5", "1 to 1000000"),
        ("--max-output-tokens", "0", "1 to 1073741824"),
        ("--conversation-rate-rps", "0", "0.000001 to 1000000 per second"),
    ] {
        let message = format!("{flag}: {value} is out of range (allowed: {allowed})");
        table.row(&place, &["trace", "generate", "-o", "out.jsonl", flag, value], &message);
    }
    for flag in ["--block-size", "--trace-block-size"] {
        let message = format!("{flag}: 0 is out of range (allowed: 1 to 67108864)");
        table.row(&place, &["trace", "stats", "trace.jsonl", flag, "0"], &message);
    }
    table.finish(9);
}

/// Arguments that clap refuses, and the first line it says.
#[rustfmt::skip]
const MALFORMED: &[(&[&str], &str)] = &[
    (&["--colour"], "unexpected argument '--colour' found"),
    (&["--num-worker", "2"], "unexpected argument '--num-worker' found"),
    (&["--planner"], "unexpected argument '--planner' found"),
    (&["--num-workers", "two"], "invalid value 'two' for '--num-workers <NUM_WORKERS>': invalid digit found in string"),
    (&["--num-workers=-1"], "invalid value '-1' for '--num-workers <NUM_WORKERS>': -1 is not in 0..=4294967295"),
    (&["--num-workers", "4294967296"], "invalid value '4294967296' for '--num-workers <NUM_WORKERS>': 4294967296 is not in 0..=4294967295"),
    (&["--num-workers", "1", "--num-workers", "2"], "the argument '--num-workers <NUM_WORKERS>' cannot be used multiple times"),
    (&["--arrival-interval-ms", "soon"], "invalid value 'soon' for '--arrival-interval-ms <ARRIVAL_INTERVAL_MS>': invalid float literal"),
    (&["--replay-mode", "live"], "invalid value 'live' for '--replay-mode <REPLAY_MODE>'"),
    (&["--router-mode", "random"], "invalid value 'random' for '--router-mode <ROUTER_MODE>'"),
    (&["--extra-engine-args"], "a value is required for '--extra-engine-args <JSON>' but none was supplied"),
    (&["--request-rate", "1", "--replay-concurrency", "1"], "the argument '--request-rate <REQUEST_RATE>' cannot be used with '--replay-concurrency <REPLAY_CONCURRENCY>'"),
    (&["--request-rate", "1", "--arrival-interval-ms", "1"], "the argument '--request-rate <REQUEST_RATE>' cannot be used with '--arrival-interval-ms <ARRIVAL_INTERVAL_MS>'"),
    (&["--arrival-seed", "1"], "the following required arguments were not provided:"),
    (&["--trace-format", "weka"], "invalid value 'weka' for '--trace-format <TRACE_FORMAT>': trace_format: `weka` is out of range (allowed: mooncake, mooncake-delta, agentic_mooncake, applied_compute_agentic, dynamo, azure)"),
];

#[test]
fn unknown_flags_and_malformed_values_exit_with_2_and_point_to_help() {
    let place = Place::new();
    for (flags, message) in MALFORMED {
        let ran = place.run(&[&["replay"], &SMALL[..], flags].concat());
        let mut lines = ran.stderr.lines();
        assert_eq!((ran.code, lines.next()), (Some(2), Some(format!("error: {message}").as_str())), "{flags:?}");
        assert_eq!(lines.next_back(), Some("For more information, try '--help'."), "{flags:?}");
        assert_eq!(ran.stdout, "", "{flags:?}");
    }
    assert!(place.names().is_empty());
}

#[test]
fn the_whole_message_about_an_unknown_flag_is_this() {
    let ran = Place::new().run(&["trace", "stats", "trace.jsonl", "--jsn"]);
    let expected = "error: unexpected argument '--jsn' found\n\n  tip: a similar argument exists: '--json'\n\n\
                    Usage: dynosim trace stats --json <FILE>...\n\nFor more information, try '--help'.\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), expected));
}
