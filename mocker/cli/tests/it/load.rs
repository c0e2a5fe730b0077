//! `dynosim load` as its users see it; what it measures is tested beside its crate.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::place::Place;
use crate::refused::{SMALL, Table};

/// An address that nobody listens at.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

/// Flags beside a server's address and a small synthetic workload, and the message.
#[rustfmt::skip]
const BAD: &[(&[&str], &str)] = &[
    (&["--connections", "0"], "--connections: 0 is out of range (allowed: 1 to 1048576)"),
    (&["--connections", "1048577"], "--connections: 1048577 is out of range (allowed: 1 to 1048576)"),
    (&["--timeout-seconds", "0"], "--timeout-seconds: 0 is out of range (allowed: 0.001 to 86400)"),
    (&["--timeout-seconds", "NaN"], "--timeout-seconds: NaN is out of range (allowed: 0.001 to 86400)"),
    (&["--warmup-requests", "1000001"], "--warmup-requests: 1000001 is out of range (allowed: 0 to 1000000)"),
    (&["--vocabulary", "1"], "--vocabulary: 1 is out of range (allowed: 2 to 2147483648)"),
    (&["--vocabulary", "9", "--prompt-format", "text"], "--vocabulary: has no effect with prompts of text"),
    (&["--vocabulary", "9", "--endpoint", "chat"], "--vocabulary: has no effect with prompts of text"),
    (&["--endpoint", "chat", "--prompt-format", "tokens"], "--prompt-format tokens: a chat takes text only (allowed: text)"),
    (&["--block-size", "0"], "--block-size: 0 is out of range (allowed: 1 to 67108864)"),
    (&["--header", "no colon"], "--header: header `no colon` cannot be used (allowed: NAME: VALUE)"),
    (&["--header", "Content-Length: 3"], "--header: header `Content-Length: 3` cannot be used (allowed: NAME: VALUE)"),
    (&["--replay-concurrency", "0"], "--replay-concurrency: 0 is out of range (allowed: 1 to 4294967295)"),
    (&["--max-sim-time-seconds=-1"], "--max-sim-time-seconds: -1 is out of range (allowed: 0 to 3200000000)"),
    (&["--max-time-seconds", "inf"], "--max-sim-time-seconds: inf is out of range (allowed: 0 to 3200000000)"),
    (&["--request-rate", "0"], "--request-rate: 0 is out of range (allowed: 0.000001 to 1000000000 per second)"),
    (&["--arrival-interval-ms", "inf"], "--arrival-interval-ms: inf is out of range (allowed: 0 to 9000000000000 ms)"),
    (&["--turns-per-session", "0"], "--turns-per-session: 0 is out of range (allowed: 1 or more)"),
    (&["--sla-ttft-ms=-1"], "--sla-ttft-ms: -1 is out of range (allowed: 0 or more, finite)"),
    (&["--fail-on-sla", "0.9"], "--fail-on-sla: needs --sla-ttft-ms, --sla-itl-ms or --sla-e2e-ms"),
    (&["--lenient"], "--lenient: has no effect without a trace file"),
    (&["--arrival-speedup-ratio", "2"], "--arrival-speedup-ratio: has no effect without a trace file"),
    (&["--trace-num-prefix-groups", "2"], "--trace-num-prefix-groups: has no effect without a trace file"),
    (&["--agentic-lanes", "2"], "--agentic-lanes: has no effect without a trace file"),
    (&["--trace-format", "mooncake-delta"], "--trace-format mooncake-delta: prompts go on from the outputs before, which here the server makes; convert it to mooncake"),
    (&["--report-json", "x", "--report-jsonl", "x"], "--report-json and --report-jsonl name the same file"),
];

#[test]
fn flags_out_of_range_or_without_effect_are_named() {
    let (place, url) = (Place::new(), nobody());
    let mut table = Table::default();
    for (flags, message) in BAD {
        table.row(&place, &[&["load", "--url", &url, "--model", "m"], &SMALL[..], flags].concat(), message);
    }
    table.finish(20);
}

#[test]
fn addresses_that_are_none_are_named() {
    let place = Place::new();
    let mut table = Table::default();
    for (url, why) in [
        ("localhost:8000", "it has no http://"),
        ("https://localhost", "https is not supported"),
        ("http://", "it has no host"),
        ("http://localhost:0", "its port is not 1 to 65535"),
        ("http://localhost:99999", "its port is not 1 to 65535"),
        ("http://me:secret@localhost", "it has user information"),
    ] {
        let message = format!("--url: `{url}` cannot be used: {why} (allowed: http://HOST[:PORT][/PATH])");
        table.row(&place, &[&["load", "--url", url], &SMALL[..]].concat(), &message);
    }
    table.finish(6);
}

#[test]
fn a_workload_is_either_a_trace_or_three_sizes() {
    let (place, url) = (Place::new(), nobody());
    place.file("trace.jsonl", r#"{"timestamp":0,"output_length":1,"hash_ids":[1]}"#);
    let load = ["load", "--url", &url, "--model", "m"];
    let either = "give either one trace file, or all of --input-tokens, --output-tokens, and --request-count";
    let mut table = Table::default();
    table.row(&place, &load, either);
    table.row(&place, &[&load[..], &["trace.jsonl", "--request-count", "1"]].concat(), either);
    let block_size = "--block-size: has no effect with a trace file";
    table.row(&place, &[&load[..], &["trace.jsonl", "--block-size", "16"]].concat(), block_size);
    table.finish(3);
}

#[test]
fn without_a_server_nothing_is_measured_and_the_exit_code_is_4() {
    let (place, url) = (Place::new(), nobody());
    let ran = place.run(&[&["load", "--url", &url], &SMALL[..]].concat());
    assert_eq!((ran.code, place.names().len()), (Some(4), 0), "{}", ran.stderr);
    assert!(ran.stderr.contains("error: the models of 127.0.0.1:"), "{}", ran.stderr);

    let report = ["--model", "m", "--report-json", "report.json"];
    let ran = place.run(&[&["load", "--url", &url], &SMALL[..], &report].concat());
    assert_eq!(ran.code, Some(4));
    assert!(ran.stderr.starts_with("error: no request was answered; 1 times refused: "), "{}", ran.stderr);
    assert_eq!(place.json("report.json")["errors_refused"], 1);
}

#[test]
fn a_run_prints_the_table_and_writes_the_report_and_misses_its_service_level() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut buffer) = (stream.unwrap(), [0; 8192]);
            let mut received = Vec::new();
            while !received.ends_with(b"}") && !received.starts_with(b"GET /v1/models ") {
                let count = stream.read(&mut buffer).unwrap();
                received.extend_from_slice(&buffer[..count]);
            }
            let body = if received.starts_with(b"GET") {
                r#"{"data":[{"id":"m"}]}"#
            } else {
                r#"{"choices":[{"text":"ab","finish_reason":"length"}],"usage":{"prompt_tokens":100,"completion_tokens":2}}"#
            };
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
        }
    });
    let place = Place::new();
    let flags = ["--stream", "false", "--report-json", "r.json", "--sla-e2e-ms", "0", "--fail-on-sla", "1"];
    let ran = place.run(&[&["load", "--url", &url, "--report-jsonl", "rows.jsonl"], &SMALL[..], &flags].concat());
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stdout.contains("Time to First Token (ms)") && ran.stdout.contains("Measured Time (ms)"));
    let report = place.json("r.json");
    assert_eq!((&report["completed_requests"], &report["total_output_tokens"]), (&1.into(), &2.into()));
    assert_eq!(place.jsonl("rows.jsonl")[0]["terminal_status"], "completed");
    // A report of a simulated run has no key that this one lacks.
    let simulated = place.replay(&[&SMALL[..], &["--sla-e2e-ms", "0"]].concat());
    let missing: Vec<_> =
        simulated.as_object().unwrap().keys().filter(|key| report.get(key.as_str()).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
