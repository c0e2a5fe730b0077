//! Requests that wait for each other: `agentic_mooncake` in both forms, and `dynamo`.

use std::fmt::Write as _;

use dynosim_engine::Nanos;
use dynosim_workload::{Arrivals, Ending, OpenOptions, TraceFormat, Turn, Workload, open_bytes};
use proptest::prelude::*;

/// Each request takes so long.
const SERVICE_MS: f64 = 100.0;

pub(crate) fn options(format: TraceFormat) -> OpenOptions {
    OpenOptions { format, ..OpenOptions::default() }
}

pub(crate) fn open(text: &str, options: &OpenOptions) -> Box<dyn Workload> {
    open_bytes("trace.jsonl", text.as_bytes().to_vec(), options).unwrap().workload
}

/// Sends everything to a model that takes [`SERVICE_MS`] for each request: when each was sent, with its hashes.
pub(crate) fn run(workload: &mut dyn Workload) -> Vec<(f64, Turn, Vec<u64>)> {
    let (mut sent, mut flying, mut hashes) = (Vec::new(), Vec::<(Nanos, Turn)>::new(), Vec::new());
    loop {
        let end = flying.iter().map(|(end, _)| *end).min();
        match (workload.peek().unwrap(), end) {
            (Some(time), end) if end.is_none_or(|end| time < end) => {
                let turn = workload.take(&mut hashes).unwrap().unwrap();
                sent.push((time.as_ms(), turn, hashes.clone()));
                flying.push((time + Nanos::from_ms(SERVICE_MS), turn));
            }
            (_, Some(end)) => {
                let place = flying.iter().position(|(at, _)| *at == end).unwrap();
                let (_, turn) = flying.remove(place);
                assert_eq!(workload.ended(&turn, end, Ending::Completed), None);
            }
            (None, None) => return sent,
            (Some(_), None) => unreachable!("it would have been sent"),
        }
    }
}

/// When each request was sent, by its row.
fn times(workload: &mut dyn Workload) -> Vec<f64> {
    let mut sent: Vec<_> = run(workload).into_iter().map(|(time, turn, _)| (turn.row, time)).collect();
    sent.sort_by_key(|(row, _)| *row);
    assert_eq!(sent.len() as u64, workload.total_requests());
    sent.into_iter().map(|(_, time)| time).collect()
}

const FLAT: &str = r#"
    {"request_id":"root-1","session_id":"root","timestamp":1000,"input_length":1024,"output_length":8,"hash_ids":[0,1],"branches":["child"],"prefix_reset":true}
    {"request_id":"root-2","session_id":"root","output_length":8,"hash_ids":[0,1,2],"wait_for":["root-1","child"],"delay":10,"tool_wait_ms":2500.5}
    {"request_id":"child","session_id":"child","timestamp":7,"output_length":8,"hash_ids":[9],"wait_for":["root-1"]}
    {"request_id":"other","timestamp":1500,"output_length":8,"hash_ids":[7],"priority":2}
"#;

#[test]
fn flat_rows_wait_for_all_that_they_name_and_then_for_their_delays() {
    let mut trace = open(FLAT, &options(TraceFormat::AgenticMooncake));
    assert_eq!((trace.total_requests(), trace.total_sessions(), trace.is_multi_turn()), (4, 3, true));
    let sent = run(&mut *trace);
    let found: Vec<_> = sent.iter().map(|(time, turn, _)| (*time, turn.row, turn.session, turn.turn)).collect();
    assert_eq!(found, [(0.0, 0, 0, 0), (100.0, 2, 1, 0), (500.0, 3, 2, 0), (2710.5, 1, 0, 1)]);
    assert_eq!(sent[3].2[..16], sent[0].2[..]);
    assert_eq!(sent[2].1.priority, 2);
    assert_eq!((trace.session_name(0), trace.session_name(2)), ("root".into(), "request_4".into()));
}

#[test]
fn a_speed_up_divides_times_and_delays() {
    let fast = OpenOptions { arrival_speedup_ratio: 2.0, ..options(TraceFormat::AgenticMooncake) };
    assert_eq!(times(&mut *open(FLAT, &fast)), [0.0, 1455.25, 100.0, 250.0]);
}

#[test]
fn lanes_take_one_play_after_the_other() {
    let one = OpenOptions { lanes: Some(1), ..options(TraceFormat::AgenticMooncake) };
    // The root's play ends at 2810.5; the other request is the second play.
    assert_eq!(times(&mut *open(FLAT, &one)), [0.0, 2710.5, 100.0, 2810.5]);
    let two = OpenOptions { lanes: Some(2), ..one };
    assert_eq!(times(&mut *open(FLAT, &two)), [0.0, 2710.5, 100.0, 0.0]);
}

const HEADER: &str = r#"{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local","source":{"format":"made","digest":"1"}}"#;

/// A row of the versioned form.
fn row(id: &str, play: &str, not_before: u32, dependencies: &str) -> String {
    format!(
        r#"{{"request_id":"{id}","play_id":"{play}","session_id":"s","model":"m","input_length":64,"output_length":1,"hash_ids":[5],"not_before_ms":{not_before},"dependencies":[{dependencies}]}}"#
    )
}

fn dependency(id: &str, trigger: &str, delay: u32) -> String {
    format!(r#"{{"request_id":"{id}","trigger":"{trigger}","delay_ms":{delay},"relation":"spawn"}}"#)
}

#[test]
fn versioned_rows_wait_for_dispatches_and_completions_and_keep_their_earliest_time() {
    let text = [
        HEADER.to_owned(),
        row("a", "p", 500, ""),
        row("b", "p", 500, &dependency("a", "dispatch", 30)),
        row("c", "p", 500, &[dependency("a", "completion", 5), dependency("b", "dispatch", 90)].join(",")),
        row("d", "p", 1000, &dependency("a", "completion", 5)),
    ];
    let mut trace = open(&text.join("\n"), &options(TraceFormat::AgenticMooncake));
    assert_eq!(times(&mut *trace), [0.0, 30.0, 120.0, 500.0]);
}

#[test]
fn plays_have_hash_ids_and_sessions_of_their_own() {
    let text = [HEADER.to_owned(), row("a", "p", 0, ""), row("b", "q", 0, ""), row("c", "p", 0, "")];
    let mut trace = open(&text.join("\n"), &options(TraceFormat::AgenticMooncake));
    assert_eq!(trace.total_sessions(), 2);
    let sent = run(&mut *trace);
    assert_eq!(sent[0].2, sent[2].2);
    assert_ne!(sent[0].2, sent[1].2);
    assert_eq!((trace.session_name(0), trace.session_name(1)), ("s".into(), "s".into()));
}

/// A request of a Dynamo trace.
fn request(id: &str, agent: &str, parent: &str, start: u64, end: u64, hashes: &str) -> String {
    let parent = if parent.is_empty() { String::new() } else { format!(r#","parent_trajectory_id":"{parent}""#) };
    format!(
        r#"{{"timestamp":1,"event":{{"schema":"dynamo.agent.trace.v1","event_type":"request_end","event_time_unix_ms":{end},"agent_context":{{"session_id":"run","trajectory_id":"{agent}"{parent}}},"request":{{"request_id":"{id}","model":"m","request_received_ms":{start},"output_tokens":4,"replay":{{"trace_block_size":64,"input_length":100,"input_sequence_hashes":[{hashes}]}}}}}}}}"#
    )
}

pub(crate) fn dynamo_trace() -> String {
    let tool = r#"{"schema":"dynamo.agent.trace.v1","event_type":"tool_end","event_time_unix_ms":10440,"agent_context":{"session_id":"run","trajectory_id":"main"},"tool":{"tool_call_id":"t","tool_class":"search","started_at_unix_ms":10110,"ended_at_unix_ms":10440}}"#;
    [
        request("m2", "main", "", 10_500, 10_600, "1,3"),
        tool.to_owned(),
        request("c1", "child", "main", 10_150, 10_300, "8,9"),
        request("m1", "main", "", 10_000, 10_100, "1,2"),
        r#"{"schema":"dynamo.request.trace.v1","event_type":"tool_start"}"#.to_owned(),
    ]
    .join("\n")
}

#[test]
fn requests_of_agents_wait_as_they_did_when_they_were_recorded() {
    let mut trace = open(&dynamo_trace(), &options(TraceFormat::Dynamo));
    let sent = run(&mut *trace);
    // The child comes 50 ms after the end of the main agent's first request, which comes back 200 ms after the child.
    let found: Vec<_> = sent.iter().map(|(time, turn, _)| (*time, turn.row, turn.turn)).collect();
    assert_eq!(found, [(0.0, 0, 0), (150.0, 1, 0), (450.0, 2, 1)]);
    assert_eq!((sent[0].2.len(), &sent[0].2), (1, &sent[2].2));
    assert_eq!((trace.session_name(0), trace.session_name(1)), ("main".into(), "child".into()));
}

#[test]
fn requests_without_agents_are_independent_even_at_fixed_concurrency() {
    let text = dynamo_trace();
    let plain = text.lines().filter(|line| line.contains("request_end")).map(|line| {
        let (start, end) = (line.find(r#""agent_context""#).unwrap(), line.find(r#""request":"#).unwrap());
        format!("{}{}\n", &line[..start], &line[end..])
    });
    let plain: String = plain.collect();
    let mut trace = open(&plain, &options(TraceFormat::Dynamo));
    assert_eq!((trace.total_sessions(), times(&mut *trace)), (3, vec![0.0, 150.0, 500.0]));
    let closed = OpenOptions { arrivals: Arrivals::InOrder, ..options(TraceFormat::Dynamo) };
    assert_eq!(open(&plain, &closed).total_requests(), 3);
    let error = open_bytes("t", dynamo_trace().into_bytes(), &closed).err().unwrap().to_string();
    let expected = "trace format `dynamo` says itself when each request is sent, so it takes no fixed concurrency";
    assert_eq!(error, expected);
}

#[test]
fn compressed_files_and_several_are_one_trace() {
    use std::io::Write as _;
    let place = tempfile::tempdir().unwrap();
    let (plain, packed) = (place.path().join("a.jsonl"), place.path().join("b.jsonl.gz"));
    let text = dynamo_trace();
    let (first, second) = text.split_at(text.find('\n').unwrap() + 1);
    std::fs::write(&plain, first).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(second.as_bytes()).unwrap();
    std::fs::write(&packed, encoder.finish().unwrap()).unwrap();
    let mut whole = std::fs::read(&packed).unwrap();
    whole.truncate(whole.len() / 2);
    let broken = place.path().join("c.jsonl.gz");
    std::fs::write(&broken, whole).unwrap();
    let error =
        dynosim_workload::open(std::slice::from_ref(&broken), &options(TraceFormat::Dynamo)).err().unwrap().to_string();
    assert!(error.starts_with(&format!("{}: cannot be inflated: ", broken.display())), "{error}");
    let mut trace = dynosim_workload::open(&[plain, packed], &options(TraceFormat::Dynamo)).unwrap().workload;
    assert_eq!(run(&mut *trace), run(&mut *open(&text, &options(TraceFormat::Dynamo))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Rows wait for any rows before them: whatever the graph, everything is sent, in time, after all it waits for.
    #[test]
    fn every_graph_comes_to_its_end(
        rows in prop::collection::vec((0u32..500, prop::collection::vec(any::<prop::sample::Index>(), 0..3), 0u32..300), 1..40),
        lanes in prop::option::of(1u32..4),
    ) {
        let mut text = String::new();
        let mut waits: Vec<Vec<usize>> = Vec::new();
        for (number, (time, on, delay)) in rows.iter().enumerate() {
            let on: Vec<usize> = if number == 0 { Vec::new() } else { on.iter().map(|on| on.index(number)).collect() };
            let names: Vec<String> = on.iter().map(|on| format!("\"r{on}\"")).collect();
            let delay = if on.is_empty() { 0 } else { *delay };
            let _ = writeln!(
                text,
                "{{\"request_id\":\"r{number}\",\"timestamp\":{time},\"output_length\":1,\"hash_ids\":[1],\
                 \"wait_for\":[{}],\"delay\":{delay}}}",
                names.join(",")
            );
            waits.push(on);
        }
        let mut trace = open(&text, &OpenOptions { lanes, ..options(TraceFormat::AgenticMooncake) });
        let times = times(&mut *trace);
        prop_assert_eq!(times.len(), rows.len());
        for (number, on) in waits.iter().enumerate().filter(|(_, on)| !on.is_empty()) {
            let last = on.iter().map(|&on| times[on]).fold(0.0, f64::max);
            let due = last + SERVICE_MS + f64::from(rows[number].2);
            prop_assert_eq!(times[number].to_bits(), due.to_bits());
        }
    }
}
