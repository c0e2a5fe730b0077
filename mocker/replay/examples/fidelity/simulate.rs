//! One simulated run, and the latencies in which it is compared.

use dynosim_engine::timing::Linear;
use dynosim_engine::{EngineArgs, Horizon, Nanos};
use dynosim_replay::{Admission, Fleet, Pool, ReplayConfig, Routing, Sla, replay};
use serde_json::{Value, json};

use crate::measured::{Measured, Requests};

/// Tokens per KV block in all runs.
const BLOCK_SIZE: u32 = 16;
/// KV blocks of the runs that do not tell theirs: more than they could use.
const BLOCKS_UNKNOWN: u32 = 65_536;

/// Latencies of one request in milliseconds: first token, per output token, whole.
pub(crate) type Latencies = [f64; 3];
pub(crate) const METRICS: [&str; 3] = ["TTFT", "TPOT", "E2E"];

/// A measured run, its engine and its fitted timing.
pub(crate) struct Run {
    /// As its files are named.
    pub(crate) name: &'static str,
    /// As the table calls it.
    pub(crate) title: &'static str,
    pub(crate) max_num_seqs: u32,
    /// Blocks that can be handed out: vLLM's count less its null block.
    pub(crate) num_gpu_blocks: Option<u32>,
    pub(crate) dp_size: u32,
    pub(crate) tensor_parallel_size: u32,
    pub(crate) timing: Linear,
}

impl Run {
    fn args(&self, timing: &Linear) -> EngineArgs {
        let settings: Value = json!({
            "engine_type": "vllm",
            "block_size": BLOCK_SIZE,
            "num_gpu_blocks": self.num_gpu_blocks.unwrap_or(BLOCKS_UNKNOWN),
            "max_num_seqs": self.max_num_seqs,
            "max_num_batched_tokens": 2048,
            "async_scheduling": true,
            "eviction_policy": "lru",
            "dp_size": self.dp_size,
            "tensor_parallel_size": self.tensor_parallel_size,
            "timing_model": {
                "type": "linear",
                "pass_ms": timing.pass_ms,
                "weights_ms": timing.weights_ms,
                "prefill_ms_per_token": timing.prefill_ms_per_token,
                "attention_ms_per_token_pair": timing.attention_ms_per_token_pair,
                "decode_ms_per_request": timing.decode_ms_per_request,
                "decode_ms_per_kv_token": timing.decode_ms_per_kv_token,
            },
        });
        EngineArgs::from_value(&settings).expect("valid engine arguments")
    }

    /// Latencies of all requests, in their order.
    pub(crate) fn simulate(&self, timing: &Linear, requests: &[Measured]) -> Vec<Latencies> {
        let args = self.args(timing);
        let timing = args.timing(&mut |path| std::fs::read(path)).expect("no profile to read");
        let engine = args.engine_config(0, timing);
        let pool = Pool {
            engines: vec![engine],
            max_num_batched_tokens: args.max_num_batched_tokens,
            gpus_per_worker: args.gpus() as u32,
            startup: Nanos::ZERO,
        };
        let config = ReplayConfig {
            fleet: Fleet::Aggregated(pool),
            routing: Routing::RoundRobin,
            admission: Admission::Schedule,
            end: None,
            sla: Sla::default(),
            records: true,
            kv_eviction_policy: args.eviction_name(),
            reasoning: None,
            horizon: Horizon::Run,
            explain: None,
        };
        let mut workload = Requests::new(requests, BLOCK_SIZE);
        let outcome = replay(&config, &mut workload, 1, &mut |_| {}).expect("a complete run");
        let mut records = outcome.records.expect("records were asked for");
        records.sort_by_key(|record| record.session_id.parse::<usize>().expect("sessions are numbers"));
        let rows = records.iter().zip(requests);
        rows.map(|(record, request)| {
            let first = record.first_token_ms.expect("every request completes");
            let last = record.last_token_ms.expect("every request completes");
            latencies(record.arrival_time_ms, first, last, request.output_tokens)
        })
        .collect()
    }
}

/// Latencies from the times of arrival, first and last token.
pub(crate) fn latencies(arrival: f64, first: f64, last: f64, output_tokens: u32) -> Latencies {
    [first - arrival, (last - first) / f64::from(output_tokens.max(2) - 1), last - arrival]
}

/// Measured latencies of all requests, in their order.
pub(crate) fn measured_latencies(requests: &[Measured]) -> Vec<Latencies> {
    let of = |r: &Measured| latencies(r.arrival_ms, r.first_token_ms, r.last_token_ms, r.output_tokens);
    requests.iter().map(of).collect()
}

/// Which requests are looked at. Of four in the order of arrival, two are fitted to and two judged: in pairs, since an
/// engine with two ranks hands requests to them in turn, and each half should see both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// The coefficients are fitted to them.
    Fitted,
    /// The error is told of them.
    Judged,
}

impl Half {
    /// Its rows, of rows in the order of arrival.
    pub(crate) fn of<T>(self, rows: &[T]) -> impl Iterator<Item = &T> {
        let offset = if self == Self::Judged { 2 } else { 0 };
        rows.iter().enumerate().filter(move |(at, _)| at % 4 / 2 * 2 == offset).map(|(_, row)| row)
    }
}

/// Mean, p50, p90, p99 of one latency over one half; percentiles by nearest rank.
pub(crate) fn statistics(rows: &[Latencies], metric: usize, half: Half) -> [f64; 4] {
    let mut values: Vec<f64> = half.of(rows).map(|row| row[metric]).collect();
    values.sort_by(f64::total_cmp);
    let rank = |percent: f64| values[((values.len() - 1) as f64 * percent / 100.0).round() as usize];
    [values.iter().sum::<f64>() / values.len() as f64, rank(50.0), rank(90.0), rank(99.0)]
}

pub(crate) const STATISTICS: [&str; 4] = ["mean", "p50", "p90", "p99"];
