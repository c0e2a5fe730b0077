//! The published traces, read from the folder that `DYNOSIM_SHARED` names.

use std::io::Write as _;
use std::path::PathBuf;

use dynosim_workload::{Trace, TraceFormat, TraceOptions, TraceStats};

/// The folder of traces. Once the variable is set, whatever is missing there fails the test.
fn folder() -> Option<PathBuf> {
    let Some(shared) = std::env::var_os("DYNOSIM_SHARED") else {
        say("SKIPPED: DYNOSIM_SHARED is not set, the published traces were not read");
        return None;
    };
    Some(PathBuf::from(shared).join("traces"))
}

/// Straight to the stream: the test harness keeps what macros print to itself.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

fn stats(name: &str, format: TraceFormat) -> Option<TraceStats> {
    let options = TraceOptions { format, engine_block_size: 512, ..TraceOptions::default() };
    let mut trace = Trace::open(&folder()?.join(name), &options).unwrap();
    Some(TraceStats::collect(&mut trace, 512).unwrap())
}

#[test]
fn the_mooncake_conversation_trace_is_read() {
    let Some(found) = stats("mooncake_conversation_trace.jsonl", TraceFormat::Mooncake) else { return };
    assert_eq!((found.requests, found.sessions, found.max_turns), (12_031, 12_031, 1));
    assert!((3500.0..3601.0).contains(&found.duration_s), "{found:?}");
    assert!((0.3..0.45).contains(&found.reuse_ratio), "{found:?}");
}

#[test]
fn the_other_mooncake_traces_are_read() {
    let Some(found) = stats("mooncake_synthetic_trace.jsonl", TraceFormat::Mooncake) else { return };
    assert_eq!(found.requests, 3993);
    let Some(found) = stats("mooncake_arxiv_trace_first1000.jsonl", TraceFormat::Mooncake) else { return };
    assert_eq!(found.requests, 1000);
}

#[test]
fn the_azure_traces_are_read() {
    let Some(found) = stats("azure_llm_2023_code.csv", TraceFormat::Azure) else { return };
    assert_eq!((found.requests, found.blocks - found.distinct_blocks), (8819, 0));
    let Some(found) = stats("azure_llm_2023_conv.csv", TraceFormat::Azure) else { return };
    assert_eq!(found.requests, 19_366);
    assert!((3000.0..3700.0).contains(&found.duration_s), "{found:?}");
}
