//! What a workload looks like before any engine has seen it.

use dynosim_engine::Nanos;
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::error::WorkloadError;
use crate::workload::{Ending, Turn, Workload};

/// Lengths, rates and the reuse that an endless prefix cache would give.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceStats {
    /// Number of requests.
    pub requests: u64,
    /// Number of sessions; independent requests are one each.
    pub sessions: u64,
    /// Most turns of a session.
    pub max_turns: u32,
    /// From the first to the last arrival of a session, in seconds. Where requests wait for others, each request
    /// arrives, and models take no time.
    pub duration_s: f64,
    /// Arrivals per second over the duration; none if that is zero.
    pub mean_rate_rps: Option<f64>,
    /// Most session arrivals within one second, seconds counted from the start.
    pub peak_rate_1s_rps: f64,
    /// Most session arrivals within one minute, minutes counted from the start, per second.
    pub peak_rate_60s_rps: f64,
    /// Prompt lengths, in tokens.
    pub input_tokens: LengthStats,
    /// Output lengths, in tokens.
    pub output_tokens: LengthStats,
    /// Tokens in a block of the engine.
    pub block_size: u32,
    /// Full blocks of all prompts.
    pub blocks: u64,
    /// Different ones among them.
    pub distinct_blocks: u64,
    /// Share of all prompt tokens whose blocks an earlier request had already, whatever the order of requests.
    pub reuse_ratio: f64,
}

/// The distribution of a length, exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LengthStats {
    /// Sum over all requests.
    pub total: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Median.
    pub p50: f64,
    /// 90 % are not above it.
    pub p90: f64,
    /// 99 % are not above it.
    pub p99: f64,
}

impl LengthStats {
    /// A percentile is the value at index round((n - 1) · p / 100) of the sorted lengths.
    fn of(mut lengths: Vec<u32>) -> Self {
        lengths.sort_unstable();
        let at = |percent: f64| {
            let index = (lengths.len().saturating_sub(1) as f64 * percent / 100.0).round() as usize;
            lengths.get(index).map_or(0.0, |&length| f64::from(length))
        };
        let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
        let mean = total as f64 / (lengths.len().max(1) as f64);
        Self { total, mean, min: at(0.0), max: at(100.0), p50: at(50.0), p90: at(90.0), p99: at(99.0) }
    }
}

/// Most arrivals within one of the spans that follow each other from the start.
#[derive(Debug)]
struct Peak {
    span: Nanos,
    current: u64,
    count: u64,
    most: u64,
}

impl Peak {
    fn per_seconds(seconds: u64) -> Self {
        Self { span: Nanos(seconds * 1_000_000_000), current: 0, count: 0, most: 0 }
    }

    fn add(&mut self, time: Nanos) {
        let slot = time.0 / self.span.0;
        if slot != self.current {
            (self.current, self.count) = (slot, 0);
        }
        self.count += 1;
        self.most = self.most.max(self.count);
    }

    fn rate_rps(&self) -> f64 {
        self.most as f64 / self.span.as_secs()
    }
}

/// What is known of the requests so far.
#[derive(Debug, Default)]
struct Tally {
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    blocks: u64,
    distinct: FxHashSet<u64>,
    max_turns: u32,
}

impl Tally {
    fn add(&mut self, turn: &Turn, hashes: &[u64]) {
        self.inputs.push(turn.input_tokens);
        self.outputs.push(turn.output_tokens);
        self.blocks += hashes.len() as u64;
        self.distinct.extend(hashes.iter().copied());
        self.max_turns = self.max_turns.max(turn.turn + 1);
    }
}

impl TraceStats {
    /// Takes all requests of a workload, session after session.
    ///
    /// `block_size` is that of the engine for which the workload makes hashes. Memory grows with the number of
    /// requests and of distinct blocks.
    pub fn collect(workload: &mut dyn Workload, block_size: u32) -> Result<Self, WorkloadError> {
        let (mut tally, mut hashes) = (Tally::default(), Vec::new());
        let (mut second, mut minute) = (Peak::per_seconds(1), Peak::per_seconds(60));
        let (mut last, mut arrivals) = (Nanos::ZERO, 0u64);
        while let Some(time) = workload.peek()? {
            let Some(mut turn) = workload.take(&mut hashes)? else { break };
            second.add(time);
            minute.add(time);
            last = time;
            arrivals += 1;
            tally.add(&turn, &hashes);
            while workload.ended(&turn, time, Ending::Completed).is_some() {
                turn = workload.take_next(turn.session, &mut hashes)?;
                tally.add(&turn, &hashes);
            }
        }
        let sessions = workload.total_sessions();
        let duration_s = last.as_secs();
        let distinct_blocks = tally.distinct.len() as u64;
        let input_tokens = LengthStats::of(tally.inputs);
        let reused = (tally.blocks - distinct_blocks) * u64::from(block_size);
        Ok(Self {
            requests: workload.total_requests(),
            sessions,
            max_turns: tally.max_turns,
            duration_s,
            mean_rate_rps: (duration_s > 0.0).then(|| arrivals as f64 / duration_s),
            peak_rate_1s_rps: second.rate_rps(),
            peak_rate_60s_rps: minute.rate_rps(),
            input_tokens,
            output_tokens: LengthStats::of(tally.outputs),
            block_size,
            blocks: tally.blocks,
            distinct_blocks,
            reuse_ratio: reused as f64 / input_tokens.total.max(1) as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::RowRules;
    use crate::trace::{Trace, TraceOptions};

    #[test]
    fn a_small_trace_is_summed_up() {
        let text = br#"
            {"timestamp":1000,"input_length":8,"output_length":1,"hash_ids":[1,2]}
            {"timestamp":1500,"input_length":7,"output_length":2,"hash_ids":[1,3]}
            {"timestamp":3000,"session_id":"s","input_length":4,"output_length":3,"hash_ids":[1]}
            {"session_id":"s","input_length":12,"output_length":10,"hash_ids":[1,2,4]}
        "#;
        let rules = RowRules { trace_block_size: 4, ..RowRules::default() };
        let options = TraceOptions { rules, engine_block_size: 4, ..TraceOptions::default() };
        let mut trace = Trace::from_bytes("small", text.to_vec(), &options).unwrap();
        let found = TraceStats::collect(&mut trace, 4).unwrap();
        let inputs = LengthStats { total: 31, mean: 7.75, min: 4.0, max: 12.0, p50: 8.0, p90: 12.0, p99: 12.0 };
        let outputs = LengthStats { total: 16, mean: 4.0, min: 1.0, max: 10.0, p50: 3.0, p90: 10.0, p99: 10.0 };
        let expected = TraceStats {
            requests: 4,
            sessions: 3,
            max_turns: 2,
            duration_s: 2.0,
            mean_rate_rps: Some(1.5),
            peak_rate_1s_rps: 2.0,
            peak_rate_60s_rps: 0.05,
            input_tokens: inputs,
            output_tokens: outputs,
            block_size: 4,
            blocks: 7,
            distinct_blocks: 3,
            reuse_ratio: 16.0 / 31.0,
        };
        assert_eq!(found, expected);
    }
}
