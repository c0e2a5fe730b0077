//! Taking the turns of a trace allocates nothing, however long the trace.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use dynosim_workload::{GenerateOptions, Trace, TraceOptions, Workload, generate};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

#[test]
fn a_stream_of_rows_allocates_nothing_in_steady_state() {
    let mut bytes = Vec::new();
    let options = GenerateOptions { requests: 5000, ..GenerateOptions::default() };
    generate(&options, &mut bytes).unwrap();
    let mut trace = Trace::from_bytes("generated", bytes, &TraceOptions::default()).unwrap();
    // Room for the longest prompt, so that what is left would be an allocation per row.
    let mut hashes = Vec::with_capacity(options.max_input_tokens as usize);
    trace.take(&mut hashes).unwrap();
    let profiler = dhat::Profiler::builder().testing().build();
    let before = dhat::HeapStats::get().total_blocks;
    while trace.take(&mut hashes).unwrap().is_some() {}
    let allocated = dhat::HeapStats::get().total_blocks - before;
    drop(profiler);
    assert_eq!(allocated, 0);
}
