//! Configurations and runs of tests.

use std::time::Duration;

use dynosim_engine::Nanos;
use dynosim_load::{Answering, Endpoint, LoadConfig, LoadOutcome, PromptFormat, Stop, Target, load};
use dynosim_replay::{Admission, Sla};
use dynosim_workload::{SessionArrivals, Synthetic, SyntheticOptions, Workload};
use serde_json::Value;

pub(crate) fn config(url: &str) -> LoadConfig {
    LoadConfig {
        target: Target::resolve(url).unwrap(),
        model: "tiny".to_owned(),
        endpoint: Endpoint::Completions,
        format: PromptFormat::Tokens,
        vocabulary: 256,
        answering: Answering::Stream,
        block_size: 16,
        admission: Admission::Schedule,
        end: None,
        timeout: Duration::from_secs(10),
        connections: 1000,
        warmup_requests: 0,
        sla: Sla::default(),
        records: true,
    }
}

/// `requests` requests of 40 tokens in, `output` out, one every `interval_ms`.
pub(crate) fn requests(requests: u32, output: u32, interval_ms: f64) -> Synthetic {
    Synthetic::new(SyntheticOptions {
        input_tokens: 40,
        output_tokens: output,
        request_count: requests,
        arrivals: SessionArrivals::Interval { ms: interval_ms },
        block_size: 16,
        ..SyntheticOptions::default()
    })
    .unwrap()
}

/// A run with its report and rows as JSON.
pub(crate) struct Ran {
    pub(crate) outcome: LoadOutcome,
    pub(crate) report: Value,
    pub(crate) rows: Vec<Value>,
}

pub(crate) fn run(config: &LoadConfig, workload: &mut dyn Workload) -> Ran {
    let outcome = load(config, workload, &Stop::default(), &mut |_| ()).unwrap();
    let report = outcome.outcome.report.to_json(1000.0);
    let rows = serde_json::to_value(&outcome.outcome.records).unwrap();
    Ran { report, rows: rows.as_array().cloned().unwrap_or_default(), outcome }
}

impl Ran {
    #[track_caller]
    pub(crate) fn number(&self, key: &str) -> f64 {
        self.report[key].as_f64().unwrap_or_else(|| panic!("`{key}` is {}", self.report[key]))
    }

    /// A field of all rows.
    pub(crate) fn column(&self, key: &str) -> Vec<f64> {
        self.rows.iter().map(|row| row[key].as_f64().unwrap_or_else(|| panic!("`{key}` in {row}"))).collect()
    }
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn nanos(ms: f64) -> Nanos {
    Nanos::from_ms(ms)
}
