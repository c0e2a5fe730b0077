//! Tests of the crate from outside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agent_sessions;
mod bad_input;
mod bad_rows;
mod convert;
mod graphs;
mod public_traces;
mod sessions;
mod sources;

use dynosim_engine::Nanos;
use dynosim_workload::{Trace, Turn, Workload};

/// Everything a driver sees if it runs each session to its end.
fn replay(trace: &mut Trace) -> Vec<(Nanos, Turn, Vec<u64>)> {
    let (mut found, mut hashes) = (Vec::new(), Vec::new());
    while let Some(time) = trace.peek().unwrap() {
        let mut turn = trace.take(&mut hashes).unwrap().unwrap();
        found.push((time, turn, hashes.clone()));
        while let Some(delay) = trace.next_delay(&turn) {
            turn = trace.take_next(turn.session, &mut hashes).unwrap();
            found.push((delay, turn, hashes.clone()));
        }
    }
    found
}
