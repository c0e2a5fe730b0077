//! Traces whose requests belong together never panic; an accepted one comes to its end, each request once and none
//! before its time, and what it is converted to is accepted too and holds as many requests.
//!
//! The first byte picks the format, and whether it is read or converted. Tells whether the trace was accepted.

use dynosim_engine::Nanos;
use dynosim_workload::{
    Arrivals, ConvertOptions, Ending, OpenOptions, SharedPrefix, TraceFormat, convert_bytes, open_bytes,
};

/// So large that prompts have few blocks: a row of 30 bytes can ask for hundreds of megabytes.
const BLOCK_SIZE: u32 = 1 << 12;

pub(crate) fn check(data: &[u8]) -> bool {
    use TraceFormat::{AgenticMooncake, AppliedComputeAgentic, Dynamo, Mooncake, MooncakeDelta};
    let Some((way, text)) = data.split_first() else { return false };
    match way % 12 {
        0 => read(text, AgenticMooncake, None).is_some(),
        1 => read(text, AgenticMooncake, Some(1)).is_some(),
        2 => read(text, Dynamo, None).is_some(),
        3 => read(text, AppliedComputeAgentic, None).is_some(),
        4 => read(text, MooncakeDelta, None).is_some(),
        5 => converted(text, Mooncake, MooncakeDelta, false),
        6 => converted(text, MooncakeDelta, Mooncake, false),
        7 => converted(text, Dynamo, AgenticMooncake, way / 12 % 2 == 0),
        8 => converted(text, AgenticMooncake, AgenticMooncake, false),
        9 => converted(text, AgenticMooncake, AgenticMooncake, true),
        10 => converted(text, AppliedComputeAgentic, Mooncake, false),
        _ => converted(text, Mooncake, AgenticMooncake, true),
    }
}

/// Reads a trace to its end and counts its requests; none if it is refused.
fn read(text: &[u8], format: TraceFormat, lanes: Option<u32>) -> Option<u64> {
    let timed = format != TraceFormat::AppliedComputeAgentic;
    let options = OpenOptions {
        format,
        lanes,
        engine_block_size: BLOCK_SIZE,
        arrivals: if timed { Arrivals::Timestamps } else { Arrivals::InOrder },
        ..OpenOptions::default()
    };
    let mut workload = open_bytes("trace", text.to_vec(), &options).ok()?.workload;
    let (mut hashes, mut seen, mut now) = (Vec::new(), 0, Nanos::ZERO);
    while let Some(time) = workload.peek().expect("an accepted trace is readable") {
        let turn = workload.take(&mut hashes).expect("an accepted trace is readable");
        let mut turn = turn.expect("what was told of is there");
        assert!(time >= now);
        now = now.max(time);
        loop {
            seen += 1;
            assert!(turn.input_tokens > 0 && turn.output_tokens > 0);
            assert!(hashes.len() as u32 >= turn.input_tokens / BLOCK_SIZE);
            if workload.ended(&turn, now, Ending::Completed).is_none() {
                break;
            }
            let next = workload.take_next(turn.session, &mut hashes).expect("an announced turn is there");
            assert_eq!((next.session, next.turn), (turn.session, turn.turn + 1));
            turn = next;
        }
    }
    assert_eq!(seen, workload.total_requests());
    Some(seen)
}

fn converted(text: &[u8], from: TraceFormat, to: TraceFormat, versioned: bool) -> bool {
    let shared_prefix = SharedPrefix { ratio: 0.5, groups: 2 };
    let options = ConvertOptions { from, to, versioned, trace_block_size: None, shared_prefix };
    let mut out = Vec::new();
    let Ok(converted) = convert_bytes("trace", text.to_vec(), &options, &mut out) else { return false };
    let untimed = OpenOptions {
        format: to,
        trace_block_size: Some(converted.block_size),
        engine_block_size: BLOCK_SIZE,
        arrivals: if to == TraceFormat::AgenticMooncake { Arrivals::Timestamps } else { Arrivals::InOrder },
        ..OpenOptions::default()
    };
    // Times and pauses of plain rows are checked only when they are read.
    if let Ok(opened) = open_bytes("converted", out, &untimed) {
        assert_eq!(opened.workload.total_requests(), converted.rows);
    } else {
        assert!(matches!(from, TraceFormat::Mooncake | TraceFormat::MooncakeDelta), "{from} to {to}");
    }
    true
}
