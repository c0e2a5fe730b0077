//! Rows of the agentic formats that cannot be used: each with its whole message.

use dynosim_workload::{Arrivals, OpenOptions, TraceFormat, open_bytes};

use crate::graphs::dynamo_trace;

/// What opening says; "no error" if nothing.
fn message(text: &str, options: &OpenOptions) -> String {
    let opened = open_bytes("trace.jsonl", text.as_bytes().to_vec(), options);
    opened.err().map_or_else(|| "no error".to_owned(), |error| error.to_string())
}

fn check(options: &OpenOptions, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(message(text, options), *expected, "{text}");
    }
}

fn options(format: TraceFormat) -> OpenOptions {
    OpenOptions { format, ..OpenOptions::default() }
}

#[rustfmt::skip]
const FLAT: &[(&str, &str)] = &[
    ("", "trace.jsonl: no requests (allowed: one or more rows)"),
    ("[]", "trace.jsonl:1: a list is no row (allowed: a JSON object)"),
    (r#"{"timestamp":0,"output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: request_id: missing (allowed: a string that no other row has)"),
    (r#"{"request_id":7,"timestamp":0,"output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: request_id: 7 is of the wrong type (allowed: a string)"),
    (r#"{"request_id":"a","output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: timestamp: missing (allowed: a number of ms, 0 or more; only requests that wait for others do without)"),
    (r#"{"request_id":"a","timestamp":-1,"output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: timestamp: -1 is out of range (allowed: 0 to 9000000000000 ms)"),
    (r#"{"request_id":"a","timestamp":0,"delay":5,"output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: delay: 5 is out of range (allowed: 0 on a request that waits for nothing)"),
    (r#"{"request_id":"a","timestamp":0,"tool_wait_ms":2.5,"output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: tool_wait_ms: 2.5 is out of range (allowed: 0 on a request that waits for nothing)"),
    (r#"{"request_id":"a","timestamp":0,"tool_wait_ms":"x","output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: tool_wait_ms: `x` is of the wrong type (allowed: a number of ms, 0 or more)"),
    (r#"{"request_id":"a","delay":9e12,"tool_wait_ms":1,"output_length":1,"hash_ids":[1],"wait_for":["b"]}"#, "trace.jsonl:1: tool_wait_ms: 1 is out of range (allowed: up to 9000000000000 ms with the delay)"),
    (r#"{"request_id":"a","timestamp":0,"input_length":600,"output_length":1,"hash_ids":[1]}"#, "trace.jsonl:1: input_length: 600 is out of range (allowed: 1 to 512, 1 hash ids of 512 tokens)"),
    (r#"{"request_id":"a","timestamp":0,"output_length":1,"hash_ids":[1],"wait_for":"b"}"#, "trace.jsonl:1: wait_for: `b` is of the wrong type (allowed: a list of strings)"),
    (r#"{"request_id":"a","timestamp":0,"output_length":1,"hash_ids":[1],"wait_for":[1]}"#, "trace.jsonl:1: wait_for: 1 is of the wrong type (allowed: a list of strings)"),
    (r#"{"request_id":"a","timestamp":0,"output_length":1,"hash_ids":[1],"branches":{}}"#, "trace.jsonl:1: branches: an object is of the wrong type (allowed: a list of strings)"),
    (r#"{"request_id":"a","timestamp":0,"output_length":1,"hash_ids":[1],"prefix_reset":1}"#, "trace.jsonl:1: prefix_reset: 1 is of the wrong type (allowed: true or false)"),
    (r#"{"request_id":"a","timestamp":0,"output_length":1,"hash_ids":[1],"wait_for":[],"wait_for":["b"],"wait_for":[]}"#, "trace.jsonl:1: wait_for: given twice, the other time as `wait_for` (allowed: once)"),
    (r#"{"request_id":"a","output_length":1,"hash_ids":[1],"wait_for":["a"]}"#, "trace.jsonl:1: wait_for: `a` is out of range (allowed: other requests than the row's own)"),
    ("{\"request_id\":\"a\",\"timestamp\":0,\"output_length\":1,\"hash_ids\":[1]}\n\n{\"request_id\":\"b\",\"output_length\":1,\"hash_ids\":[1],\"wait_for\":[\"a\",\"c\"]}", "trace.jsonl:3: wait_for: `c` is out of range (allowed: the request_id of a row)"),
    ("{\"request_id\":\"a\",\"timestamp\":0,\"output_length\":1,\"hash_ids\":[1]}\n\n{\"request_id\":\"a\",\"timestamp\":0,\"output_length\":1,\"hash_ids\":[1]}", "trace.jsonl:3: request_id: `a` is out of range (allowed: unlike that of line 1)"),
    ("{\"request_id\":\"r\",\"timestamp\":0,\"output_length\":1,\"hash_ids\":[1]}\n{\"request_id\":\"a\",\"output_length\":1,\"hash_ids\":[1],\"wait_for\":[\"r\",\"b\"]}\n{\"request_id\":\"b\",\"output_length\":1,\"hash_ids\":[1],\"wait_for\":[\"c\"]}\n{\"request_id\":\"c\",\"output_length\":1,\"hash_ids\":[1],\"wait_for\":[\"a\"]}", "trace.jsonl:2: wait_for: `b` is out of range (allowed: no cycle; found `a`, `b`, `c`, `a`, each waiting for the next)"),
];

#[test]
fn bad_flat_rows_are_named() {
    check(&options(TraceFormat::AgenticMooncake), FLAT);
}

const HEAD: &str = r#"{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local","source":{"format":"f","digest":"d"}}"#;
const GOOD: &str = r#""play_id":"p","session_id":"s","model":"m","output_length":1,"hash_ids":[1],"not_before_ms":0"#;

#[rustfmt::skip]
const VERSIONED: &[(&str, &str)] = &[
    (r#"{"schema":"dynamo.agentic"}"#, "trace.jsonl:1: schema: \"dynamo.agentic\" is out of range (allowed: \"dynamo.agentic_mooncake\")"),
    (r#"{"schema":"dynamo.agentic_mooncake","version":3}"#, "trace.jsonl:1: version: 3 is out of range (allowed: 2)"),
    (r#"{"schema":"dynamo.agentic_mooncake","version":2,"hash_id_scope":"global"}"#, "trace.jsonl:1: hash_id_scope: \"global\" is out of range (allowed: \"local\")"),
    (r#"{"schema":"dynamo.agentic_mooncake","version":2,"hash_id_scope":"local","block_size":4}"#, "trace.jsonl:1: source: missing (allowed: an object with format and digest)"),
    (r#"{"schema":"dynamo.agentic_mooncake","version":2,"hash_id_scope":"local","block_size":4,"source":{"format":"f"}}"#, "trace.jsonl:1: source.digest: missing (allowed: a string)"),
    (r#"{"schema":"dynamo.agentic_mooncake","version":2,"hash_id_scope":"local","block_size":0,"source":{"format":"f","digest":"d"}}"#, "trace.jsonl:1: block_size: 0 is out of range (allowed: 1 or more)"),
    (r#"{"schema":"dynamo.agentic_mooncake","version":2,"hash_id_scope":"local","block_size":67108865,"source":{"format":"f","digest":"d"}}"#, "trace.jsonl:1: block_size: 67108865 is out of range (allowed: 1 to 67108864)"),
    ("HEAD", "trace.jsonl: no requests (allowed: one or more rows)"),
    ("HEAD\n{GOOD}", "trace.jsonl:2: request_id: missing (allowed: a string that no other row has)"),
    ("HEAD\n{\"request_id\":\"a\",\"output_length\":1,\"hash_ids\":[1]}", "trace.jsonl:2: session_id: missing (allowed: a string)"),
    ("HEAD\n{\"request_id\":\"a\",\"session_id\":\"s\",\"output_length\":1,\"hash_ids\":[1]}", "trace.jsonl:2: not_before_ms: missing (allowed: a number of ms, 0 or more)"),
    ("HEAD\n{\"request_id\":\"a\",\"session_id\":\"s\",\"not_before_ms\":0,\"output_length\":1,\"hash_ids\":[1]}", "trace.jsonl:2: play_id: missing (allowed: a string)"),
    ("HEAD\n{\"request_id\":\"a\",\"session_id\":\"s\",\"not_before_ms\":0,\"play_id\":\"p\",\"output_length\":1,\"hash_ids\":[1]}", "trace.jsonl:2: model: missing (allowed: a string)"),
    ("HEAD\n{\"request_id\":\"a\",GOOD,\"recorded_api_time_ms\":-1}", "trace.jsonl:2: recorded_api_time_ms: -1 is out of range (allowed: 0 to 9000000000000 ms)"),
    ("HEAD\n{\"request_id\":\"a\",GOOD,\"dependencies\":{}}", "trace.jsonl:2: dependencies: an object is of the wrong type (allowed: a list of objects)"),
    ("HEAD\n{\"request_id\":\"a\",GOOD,\"dependencies\":[1]}", "trace.jsonl:2: dependencies: 1 is of the wrong type (allowed: a list of objects)"),
    ("HEAD\n{\"request_id\":\"a\",GOOD,\"dependencies\":[{}]}", "trace.jsonl:2: dependencies.request_id: missing (allowed: a string)"),
    ("HEAD\n{\"request_id\":\"a\",GOOD,\"dependencies\":[{\"request_id\":\"b\",\"trigger\":\"start\"}]}", "trace.jsonl:2: dependencies.trigger: `start` is out of range (allowed: dispatch, completion)"),
    ("HEAD\n{\"request_id\":\"a\",GOOD,\"dependencies\":[{\"request_id\":\"b\",\"trigger\":\"dispatch\"}]}", "trace.jsonl:2: dependencies.delay_ms: missing (allowed: a number of ms, 0 or more)"),
    ("HEAD\n{\"request_id\":\"a\",GOOD,\"dependencies\":[{\"request_id\":\"b\",\"trigger\":\"dispatch\",\"delay_ms\":0,\"relation\":\"x\"}]}", "trace.jsonl:2: dependencies.relation: `x` is out of range (allowed: sequence, spawn, join, replay_barrier)"),
    ("HEAD\n{\"request_id\":\"a\",GOOD,\"dependencies\":[{\"request_id\":\"b\",\"trigger\":\"dispatch\",\"delay_ms\":0,\"relation\":\"join\"}]}", "trace.jsonl:2: dependencies.request_id: `b` is out of range (allowed: the request_id of a row)"),
];

#[test]
fn bad_headers_and_versioned_rows_are_named() {
    for (text, expected) in VERSIONED {
        let text = text.replace("HEAD", HEAD).replace("GOOD", GOOD);
        assert_eq!(message(&text, &options(TraceFormat::AgenticMooncake)), *expected, "{text}");
    }
    let other = OpenOptions { trace_block_size: Some(512), ..options(TraceFormat::AgenticMooncake) };
    let expected = "trace_block_size: 512 is out of range (allowed: what the trace says itself; leave it out)";
    assert_eq!(message(&format!("{HEAD}\n{{\"request_id\":\"a\",{GOOD}}}"), &other), expected);
}

const DYNAMO: &str = r#"{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":9,REST}"#;

#[rustfmt::skip]
const RECORDS: &[(&str, &str)] = &[
    ("{}", "trace.jsonl:1: schema: missing (allowed: a string)"),
    (r#"{"event":[]}"#, "trace.jsonl:1: event: a list is of the wrong type (allowed: an object)"),
    (r#"{"schema":"x"}"#, "trace.jsonl:1: schema: `x` is out of range (allowed: dynamo.request.trace.v1, dynamo.agent.trace.v1)"),
    (r#"{"schema":"dynamo.request.trace.v1"}"#, "trace.jsonl:1: event_type: missing (allowed: a string)"),
    (r#"{"schema":"dynamo.request.trace.v1","event_type":"request_payload"}"#, "trace.jsonl: no requests (allowed: one or more rows)"),
    (r#"{"schema":"dynamo.request.trace.v1","event_type":"request_end"}"#, "trace.jsonl:1: event_time_unix_ms: missing (allowed: a number of ms, 0 or more)"),
    (r#"{"schema":"dynamo.request.trace.v1","event_type":"tool_end"}"#, "trace.jsonl:1: agent_context: missing (allowed: an object with the names of the run and the trajectory)"),
    (r#"REST:"request":1"#, "trace.jsonl:1: request: 1 is of the wrong type (allowed: an object)"),
    (r#"REST:"x":1"#, "trace.jsonl:1: request: missing (allowed: an object)"),
    (r#"REST:"agent_context":{},"request":{}"#, "trace.jsonl:1: agent_context.session_id: missing (allowed: a string)"),
    (r#"REST:"request":{}"#, "trace.jsonl:1: request.request_id: missing (allowed: a string)"),
    (r#"REST:"request":{"request_id":"a","output_tokens":1}"#, "trace.jsonl:1: request.replay: missing (allowed: an object; the trace was made without it)"),
    (r#"REST:"request":{"request_id":"a","replay":{}}"#, "trace.jsonl:1: request.output_tokens: missing (allowed: an integer, 1 or more)"),
    (r#"REST:"request":{"request_id":"a","output_tokens":0,"replay":{}}"#, "trace.jsonl:1: request.output_tokens: 0 is out of range (allowed: 1 or more)"),
    (r#"REST:"request":{"request_id":"a","output_tokens":1,"replay":{}}"#, "trace.jsonl:1: request.replay.input_length: missing (allowed: an integer, 1 or more)"),
    (r#"REST:"request":{"request_id":"a","output_tokens":1,"replay":{"input_length":5}}"#, "trace.jsonl:1: request.replay.trace_block_size: missing (allowed: an integer, 1 or more)"),
    (r#"REST:"request":{"request_id":"a","output_tokens":1,"replay":{"input_length":5,"trace_block_size":2}}"#, "trace.jsonl:1: request.replay.input_sequence_hashes: missing (allowed: a list of integers, 0 or more)"),
    (r#"REST:"request":{"request_id":"a","output_tokens":1,"replay":{"input_length":5,"trace_block_size":2,"input_sequence_hashes":[1]}}"#, "trace.jsonl:1: request.replay.input_sequence_hashes: 1 hashes is out of range (allowed: 3, 5 tokens in blocks of 2)"),
    (r#"REST:"request":{"request_id":"a","output_tokens":1,"replay":{"input_length":2,"trace_block_size":2,"input_sequence_hashes":[-1]}}"#, "trace.jsonl:1: request.replay.input_sequence_hashes: -1 is out of range (allowed: a list of integers, 0 or more)"),
];

#[test]
fn bad_records_are_named() {
    for (text, expected) in RECORDS {
        let text = text.strip_prefix("REST:").map_or((*text).to_owned(), |rest| DYNAMO.replace("REST", rest));
        assert_eq!(message(&text, &options(TraceFormat::Dynamo)), *expected, "{text}");
    }
}

#[test]
fn records_that_do_not_go_together_are_named() {
    let good = dynamo_trace();
    let first = good.lines().next().unwrap();
    let dynamo = options(TraceFormat::Dynamo);
    let after_first = |second: &str| message(&format!("{first}\n{second}"), &dynamo);
    let expected = "trace.jsonl:2: request.request_id: `m2` is out of range (allowed: an id that no other request has)";
    assert_eq!(after_first(first), expected);
    let other = first.replace("\"m2\"", "\"x\"").replace(":64", ":50");
    let expected = "trace.jsonl:2: request.replay.trace_block_size: 50 is out of range (allowed: 64, as in the \
                    requests before)";
    assert_eq!(after_first(&other), expected);
    let alone = first.replace("\"m2\"", "\"x\"").replace("agent_context", "other_context");
    let expected = "trace.jsonl:2: agent_context: absent is out of range (allowed: there on all requests or on none)";
    assert_eq!(after_first(&alone), expected);
    let size = OpenOptions { trace_block_size: Some(4), ..dynamo };
    let expected = "trace_block_size: 4 is out of range (allowed: what the trace says itself; leave it out)";
    assert_eq!(message(&good, &size), expected);
}

#[rustfmt::skip]
const APPLIED: &[(&str, &str)] = &[
    ("", "trace.jsonl: no requests (allowed: one or more rows)"),
    ("{}", "trace.jsonl:1: num_turns: missing (allowed: an integer, 0 or more)"),
    (r#"{"num_turns":-1}"#, "trace.jsonl:1: num_turns: -1 is out of range (allowed: 0 or more)"),
    (r#"{"num_turns":1.5}"#, "trace.jsonl:1: num_turns: 1.5 is of the wrong type (allowed: an integer, 0 or more)"),
    (r#"{"num_turns":1}"#, "trace.jsonl:1: input_prompt_length: missing (allowed: an integer, 1 or more)"),
    (r#"{"num_turns":1,"input_prompt_length":0}"#, "trace.jsonl:1: input_prompt_length: 0 is out of range (allowed: 1 or more)"),
    (r#"{"num_turns":1,"input_prompt_length":1}"#, "trace.jsonl:1: assistant_response_length: missing (allowed: a list of numbers, one per turn)"),
    (r#"{"num_turns":1,"input_prompt_length":1,"assistant_response_length":[1,2]}"#, "trace.jsonl:1: assistant_response_length: 2 numbers is out of range (allowed: 1, the num_turns)"),
    (r#"{"num_turns":1,"input_prompt_length":1,"assistant_response_length":[0]}"#, "trace.jsonl:1: assistant_response_length: 0 is out of range (allowed: 1 or more)"),
    (r#"{"num_turns":1,"input_prompt_length":1,"assistant_response_length":[1],"tool_call_output_length":[-2]}"#, "trace.jsonl:1: tool_call_output_length: -2 is out of range (allowed: 0 or more)"),
    (r#"{"num_turns":1,"input_prompt_length":1,"assistant_response_length":[1],"tool_call_output_length":[0],"tool_call_latency":["1"]}"#, "trace.jsonl:1: tool_call_latency: `1` is of the wrong type (allowed: a number of seconds, 0 or more)"),
    (r#"{"num_turns":1,"input_prompt_length":1,"assistant_response_length":[1],"tool_call_output_length":[0],"tool_call_latency":[-0.5]}"#, "trace.jsonl:1: tool_call_latency: -0.5 is out of range (allowed: 0 to 9000000000 s)"),
    (r#"{"num_turns":1,"input_prompt_length":1,"assistant_response_length":[1],"tool_call_output_length":[0],"tool_call_latency":[0]}"#, "trace.jsonl:1: final_assistant_response_length: missing (allowed: an integer, 1 or more)"),
    (r#"{"num_turns":0,"input_prompt_length":67108864,"assistant_response_length":[],"tool_call_output_length":[],"tool_call_latency":[],"final_assistant_response_length":1}"#, "trace.jsonl:1: input_prompt_length: 67108865 tokens in all is out of range (allowed: up to 67108864)"),
];

#[test]
fn bad_agent_sessions_are_named() {
    let closed = OpenOptions { arrivals: Arrivals::InOrder, ..options(TraceFormat::AppliedComputeAgentic) };
    check(&closed, APPLIED);
}

#[test]
fn a_session_of_deltas_has_a_greatest_length() {
    let row = r#"{"session_id":"s","timestamp":0,"output_length":1,"hash_ids":[1]}"#;
    let delta = OpenOptions { trace_block_size: Some(1 << 25), ..options(TraceFormat::MooncakeDelta) };
    let expected = "trace.jsonl:2: input_length: 33554432 is out of range (allowed: up to 67108864 tokens with the \
                    33554433 of the session so far and the output)";
    assert_eq!(message(&format!("{row}\n{row}"), &delta), expected);
}

#[test]
fn bad_options_are_named() {
    let base = options(TraceFormat::AgenticMooncake);
    let cases = [
        (OpenOptions { lanes: Some(0), ..base }, "agentic_lanes: 0 is out of range (allowed: 1 or more)"),
        (
            OpenOptions { arrivals: Arrivals::InOrder, ..base },
            "trace format `agentic_mooncake` says itself when each request is sent, so it takes no fixed concurrency",
        ),
        (OpenOptions { engine_block_size: 0, ..base }, "block_size: 0 is out of range (allowed: 1 to 67108864)"),
    ];
    for (options, expected) in cases {
        assert_eq!(message("", &options), expected);
    }
    let two = dynosim_workload::open(&["a".into(), "b".into()], &base).err().unwrap().to_string();
    assert_eq!(two, "trace format `agentic_mooncake` needs exactly one file; only dynamo takes several");
}
