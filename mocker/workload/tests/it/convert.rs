//! Traces of one format as traces of another.

use dynosim_workload::{
    Arrivals, ConvertOptions, Ending, OpenOptions, SharedPrefix, TraceFormat, Turn, convert_bytes, open_bytes,
};
use proptest::prelude::*;

use crate::graphs::{dynamo_trace, open, options, run};

const BLOCK: u32 = 64;

fn convert_options(from: TraceFormat, to: TraceFormat) -> ConvertOptions {
    let shared_prefix = SharedPrefix::default();
    ConvertOptions { from, to, versioned: false, trace_block_size: None, shared_prefix }
}

fn convert(text: &str, options: &ConvertOptions) -> Result<String, String> {
    let mut out = Vec::new();
    let converted = convert_bytes("trace.jsonl", text.as_bytes().to_vec(), options, &mut out);
    let converted = converted.map_err(|error| error.to_string())?;
    let text = String::from_utf8(out).unwrap();
    let header = usize::from(text.starts_with(r#"{"schema""#));
    assert_eq!(converted.rows as usize, text.lines().count() - header);
    Ok(text)
}

/// All turns, session after session: pause, lengths and hashes.
fn turns(text: &str, options: &OpenOptions) -> Vec<(u64, Turn, Vec<u64>)> {
    let mut workload = open(text, options);
    let (mut found, mut hashes) = (Vec::new(), Vec::new());
    while let Some(time) = workload.peek().unwrap() {
        let mut turn = workload.take(&mut hashes).unwrap().unwrap();
        found.push((time.0, turn, hashes.clone()));
        while let Some(pause) = workload.ended(&turn, time, Ending::Completed) {
            turn = workload.take_next(turn.session, &mut hashes).unwrap();
            found.push((pause.0, turn, hashes.clone()));
        }
    }
    found
}

/// Full blocks of the prompts, numbered in the order in which they come up: equal for equal sharing.
fn shape(turns: &[(u64, Turn, Vec<u64>)], block: u32) -> Vec<(u64, Turn, Vec<usize>)> {
    let mut known: Vec<u64> = Vec::new();
    let mut number = |hash: u64| {
        known.iter().position(|&other| other == hash).unwrap_or_else(|| {
            known.push(hash);
            known.len() - 1
        })
    };
    let prompt = |turn: &Turn, hashes: &[u64]| hashes[..(turn.input_tokens / block) as usize].to_vec();
    turns
        .iter()
        .map(|(time, turn, hashes)| (*time, *turn, prompt(turn, hashes).into_iter().map(&mut number).collect()))
        .collect()
}

/// Shared blocks, tokens of the first prompt after them, and new tokens, output and pause of each turn.
type Session = (u32, u32, Vec<(u32, u32, u32)>);

/// Per session: a shared beginning of full blocks, a first prompt that goes on, and growth and output of each turn.
fn sessions() -> impl Strategy<Value = Vec<Session>> {
    let turn = (1u32..150, 1u32..150, 0u32..1000);
    prop::collection::vec((0u32..3, 1u32..200, prop::collection::vec(turn, 1..5)), 1..6)
}

/// Mooncake rows of such sessions, turn by turn over all sessions.
fn mooncake(sessions: &[Session]) -> String {
    let mut rows = Vec::new();
    for (number, (shared, first, turns)) in sessions.iter().enumerate() {
        let (mut input, mut ids) = (0, (0..*shared).collect::<Vec<u32>>());
        for (turn, (new, output, pause)) in turns.iter().enumerate() {
            input += if turn == 0 { shared * BLOCK + first } else { *new };
            let own = input.div_ceil(BLOCK) - ids.len() as u32;
            let next = 1000 * (number as u32 + 1) + ids.len() as u32;
            ids.extend(next..next + own);
            let time = if turn == 0 { format!("\"timestamp\":{number}") } else { format!("\"delay\":{pause}.5") };
            rows.push((turn, format!(
                "{{\"session_id\":\"s{number}\",{time},\"input_length\":{input},\"output_length\":{output},\"hash_ids\":{ids:?}}}\n"
            )));
            input += output;
        }
    }
    rows.sort_by_key(|(turn, _)| *turn);
    rows.into_iter().map(|(_, row)| row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn deltas_and_back_change_neither_times_nor_lengths_nor_what_is_shared(sessions in sessions()) {
        let text = mooncake(&sessions);
        let to = ConvertOptions {
            trace_block_size: Some(BLOCK),
            ..convert_options(TraceFormat::Mooncake, TraceFormat::MooncakeDelta)
        };
        let delta = convert(&text, &to).unwrap();
        let back = convert(&delta, &ConvertOptions { from: to.to, to: to.from, ..to }).unwrap();
        let whole = OpenOptions { trace_block_size: Some(BLOCK), engine_block_size: 16, ..OpenOptions::default() };
        let original = shape(&turns(&text, &whole), 16);
        prop_assert_eq!(&original, &shape(&turns(&back, &whole), 16));
        // The deltas themselves mean the same prompts as what they become.
        let deltas = OpenOptions { format: TraceFormat::MooncakeDelta, ..whole };
        let lengths = |turns: Vec<(u64, Turn, Vec<u64>)>| turns.into_iter().map(|(time, turn, _)| (time, turn)).collect::<Vec<_>>();
        prop_assert_eq!(lengths(turns(&delta, &deltas)), lengths(turns(&text, &whole)));
        prop_assert_eq!(shape(&turns(&delta, &deltas), 16), original);
    }

    #[test]
    fn sessions_become_graphs_that_send_the_same(sessions in sessions(), versioned: bool) {
        let text = mooncake(&sessions);
        let to = ConvertOptions {
            trace_block_size: Some(BLOCK),
            versioned,
            ..convert_options(TraceFormat::Mooncake, TraceFormat::AgenticMooncake)
        };
        let graph = convert(&text, &to).unwrap();
        let sent = run(&mut *open(&graph, &OpenOptions { trace_block_size: Some(BLOCK), ..options(TraceFormat::AgenticMooncake) }));
        let mut lengths: Vec<_> = sent.iter().map(|(_, turn, hashes)| (turn.row, turn.input_tokens, hashes.len())).collect();
        lengths.sort_unstable();
        let whole = OpenOptions { trace_block_size: Some(BLOCK), ..OpenOptions::default() };
        let mut expected: Vec<_> =
            turns(&text, &whole).iter().map(|(_, turn, hashes)| (turn.row, turn.input_tokens, hashes.len())).collect();
        expected.sort_unstable();
        prop_assert_eq!(lengths, expected);
        // From one form to the other and back nothing changes.
        let between = ConvertOptions { trace_block_size: Some(BLOCK), ..convert_options(TraceFormat::AgenticMooncake, TraceFormat::AgenticMooncake) };
        let other = convert(&graph, &ConvertOptions { versioned: !versioned, ..between }).unwrap();
        let agentic = OpenOptions { trace_block_size: Some(BLOCK), ..options(TraceFormat::AgenticMooncake) };
        let found = run(&mut *open(&other, &agentic));
        let plain = |sent: &[(f64, Turn, Vec<u64>)]| sent.iter().map(|(time, turn, _)| (time.to_bits(), *turn)).collect::<Vec<_>>();
        prop_assert_eq!(plain(&sent), plain(&found));
    }
}

#[test]
fn a_dynamo_trace_becomes_flat_rows() {
    let to = convert_options(TraceFormat::Dynamo, TraceFormat::AgenticMooncake);
    let expected = r#"{"request_id":"m1","session_id":"main","timestamp":0,"input_length":100,"output_length":4,"hash_ids":[0,1],"branches":["c1"],"prefix_reset":true}
{"request_id":"c1","session_id":"child","timestamp":150,"delay":50,"input_length":100,"output_length":4,"hash_ids":[2,3],"wait_for":["m1"],"prefix_reset":true}
{"request_id":"m2","session_id":"main","timestamp":500,"delay":60,"tool_wait_ms":140,"input_length":100,"output_length":4,"hash_ids":[0,4],"wait_for":["m1","c1"]}
"#;
    assert_eq!(convert(&dynamo_trace(), &to).unwrap(), expected);
    let plain = convert_options(TraceFormat::Dynamo, TraceFormat::Mooncake);
    let expected = r#"{"request_id":"m1","timestamp":0,"input_length":100,"output_length":4,"hash_ids":[0,1]}
{"request_id":"c1","timestamp":150,"input_length":100,"output_length":4,"hash_ids":[2,3]}
{"request_id":"m2","timestamp":500,"input_length":100,"output_length":4,"hash_ids":[0,4]}
"#;
    assert_eq!(convert(&dynamo_trace(), &plain).unwrap(), expected);
}

#[test]
fn a_dynamo_trace_and_what_it_becomes_are_sent_alike() {
    let sent = |text: &str, options: &OpenOptions| {
        let sent = run(&mut *open(text, options));
        let plain = sent.iter().map(|(time, turn, _)| (time.to_bits(), *turn)).collect::<Vec<_>>();
        let turns: Vec<_> = sent.into_iter().map(|(_, turn, hashes)| (0, turn, hashes)).collect();
        (plain, shape(&turns, 64))
    };
    let expected = sent(&dynamo_trace(), &options(TraceFormat::Dynamo));
    for versioned in [false, true] {
        let to = ConvertOptions { versioned, ..convert_options(TraceFormat::Dynamo, TraceFormat::AgenticMooncake) };
        let text = convert(&dynamo_trace(), &to).unwrap();
        let agentic = OpenOptions { trace_block_size: Some(64), ..options(TraceFormat::AgenticMooncake) };
        assert_eq!(sent(&text, &agentic), expected, "{text}");
    }
}

#[test]
fn agent_sessions_become_sessions_with_the_same_prompts() {
    let text = r#"{"num_turns":2,"input_prompt_length":100,"assistant_response_length":[10,20],"tool_call_output_length":[30,0],"tool_call_latency":[1.4,0],"final_assistant_response_length":5}
{"num_turns":1,"input_prompt_length":90,"assistant_response_length":[1],"tool_call_output_length":[70],"tool_call_latency":[0.25],"final_assistant_response_length":7}
"#;
    let shared_prefix = SharedPrefix { ratio: 0.5, groups: 1 };
    let to = ConvertOptions {
        trace_block_size: Some(16),
        shared_prefix,
        ..convert_options(TraceFormat::AppliedComputeAgentic, TraceFormat::Mooncake)
    };
    let closed = OpenOptions {
        trace_block_size: Some(16),
        engine_block_size: 8,
        arrivals: Arrivals::InOrder,
        shared_prefix,
        ..options(TraceFormat::AppliedComputeAgentic)
    };
    let whole = OpenOptions { format: TraceFormat::Mooncake, ..closed };
    assert_eq!(shape(&turns(&convert(text, &to).unwrap(), &whole), 8), shape(&turns(text, &closed), 8));
}

#[test]
fn azure_rows_get_hash_ids_of_their_own() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.5,600,7\n2023-11-16 18:00:01,512,9\n";
    let to = convert_options(TraceFormat::Azure, TraceFormat::Mooncake);
    let expected = "{\"timestamp\":64800500,\"input_length\":600,\"output_length\":7,\"hash_ids\":[0,1]}\n\
                    {\"timestamp\":64801000,\"input_length\":512,\"output_length\":9,\"hash_ids\":[2]}\n";
    assert_eq!(convert(text, &to).unwrap(), expected);
}

#[test]
fn what_cannot_be_said_in_the_other_format_is_named() {
    use TraceFormat::{AgenticMooncake, Azure, Dynamo, Mooncake, MooncakeDelta};
    let first = r#"{"session_id":"s","timestamp":0,"input_length":600,"output_length":100,"hash_ids":[1,2]}"#;
    let head = r#"{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local","source":{"format":"f","digest":"d"}}"#;
    let root = r#"{"request_id":"a","play_id":"p","session_id":"s","model":"m","output_length":1,"hash_ids":[1],"not_before_ms":0}"#;
    let waiting = |id: &str, not_before: u32, trigger: &str| {
        format!(
            r#"{head}
{root}
{{"request_id":"{id}","play_id":"p","session_id":"s","model":"m","output_length":1,"hash_ids":[1],"not_before_ms":{not_before},"dependencies":[{{"request_id":"a","trigger":"{trigger}","delay_ms":0,"relation":"join"}}]}}"#
        )
    };
    let cases = [
        (
            format!("{first}\n{}", r#"{"session_id":"s","input_length":700,"output_length":1,"hash_ids":[1,2]}"#),
            convert_options(Mooncake, MooncakeDelta),
            "trace.jsonl:2: input_length: 700 is out of range (allowed: more than the 700 of the session's turn before, \
             prompt and output)",
        ),
        (
            format!("{first}\n{}", r#"{"session_id":"s","input_length":900,"output_length":1,"hash_ids":[3,2]}"#),
            convert_options(Mooncake, MooncakeDelta),
            "trace.jsonl:2: hash_ids: another beginning is out of range (allowed: first the 1 of the session's turn \
             before, which cover full blocks)",
        ),
        (
            waiting("b", 0, "dispatch"),
            convert_options(AgenticMooncake, AgenticMooncake),
            "trace.jsonl:3: dependencies.trigger: dispatch is out of range (allowed: completion, the only trigger of \
             the flat form)",
        ),
        (
            waiting("b", 7, "completion"),
            convert_options(AgenticMooncake, AgenticMooncake),
            "trace.jsonl:3: not_before_ms: 7 is out of range (allowed: 0 on a row with dependencies, the flat form has \
             no earliest time)",
        ),
        (
            String::new(),
            convert_options(Dynamo, MooncakeDelta),
            "dynamo to mooncake-delta: cannot be converted (allowed: mooncake to mooncake-delta or agentic_mooncake; \
             mooncake-delta, applied_compute_agentic or azure to mooncake; dynamo to mooncake or agentic_mooncake; \
             agentic_mooncake to itself, from one form to the other)",
        ),
        (
            String::new(),
            convert_options(Azure, Mooncake),
            "trace.jsonl: no requests (allowed: one or more rows)",
        ),
        (
            format!("{0}\n{0}", r#"{"request_id":"a","timestamp":0,"output_length":1,"hash_ids":[1]}"#),
            convert_options(Mooncake, AgenticMooncake),
            "trace.jsonl:2: request_id: `a` is out of range (allowed: an id that no other row has)",
        ),
        (
            r#"{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":9,"request":{"request_id":"a","output_tokens":1,"replay":{"input_length":2,"trace_block_size":2,"input_sequence_hashes":[1]}}}"#.to_owned(),
            convert_options(Dynamo, AgenticMooncake),
            "trace format `dynamo` tells no agents here, so its requests wait for nothing (allowed: convert it to \
             mooncake)",
        ),
    ];
    for (text, to, expected) in cases {
        assert_eq!(convert(&text, &to).unwrap_err(), expected, "{text}");
    }
    let bad = open_bytes("t", b"{}".to_vec(), &OpenOptions::default()).err().unwrap().to_string();
    assert_eq!(bad, "t:1: output_length: missing (allowed: 1 or more)");
}
