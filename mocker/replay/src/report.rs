//! The report: Dynamo's keys, flat.

use serde_json::{Map, Value, json};

use crate::collector::Collector;
use crate::replay::ReplayConfig;
use crate::samples::{PERCENTILES, Summary};

/// Latencies of a run, in milliseconds but for the last, which is in tokens per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) ttft: Summary,
    pub(crate) ttst: Summary,
    pub(crate) tpot: Summary,
    pub(crate) itl: Summary,
    pub(crate) e2e: Summary,
    pub(crate) throughput_per_user: Summary,
}

/// Summary of a run.
#[derive(Clone, Debug)]
pub struct Report {
    pub(crate) latencies: Latencies,
    pub(crate) requests: u64,
    pub(crate) completed: u64,
    pub(crate) rejected: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) duration_ms: f64,
    pub(crate) reused_ratio: f64,
    pub(crate) first_reused_ratio: f64,
    fields: Map<String, Value>,
    good_requests: u64,
    sla_set: bool,
}

impl Report {
    pub(crate) fn new(config: &ReplayConfig, mut collector: Collector) -> Self {
        let latencies = Latencies {
            ttft: collector.ttft.summary_ms(),
            ttst: collector.ttst.summary_ms(),
            tpot: collector.tpot.summary_ms(),
            itl: collector.itl.summary_ms(),
            e2e: collector.e2e.summary_ms(),
            throughput_per_user: collector.itl.rate_summary(),
        };
        let of_input = |tokens: u64| ratio(tokens as f64, collector.input_tokens as f64);
        let mut report = Self {
            latencies,
            requests: collector.requests,
            completed: collector.completed,
            rejected: collector.rejected,
            input_tokens: collector.input_tokens,
            output_tokens: collector.output_tokens,
            duration_ms: collector.last_token.as_ms(),
            reused_ratio: of_input(collector.reused_tokens),
            first_reused_ratio: of_input(collector.first_reused_tokens),
            fields: Map::new(),
            good_requests: collector.good_requests,
            sla_set: config.sla.is_set(),
        };
        report.add_distributions();
        report.add_totals(&collector);
        report.add_provision(config, &collector);
        report
    }

    /// All fields, sorted by name. `wall_time_ms` is how long the run took on the host.
    pub fn to_json(&self, wall_time_ms: f64) -> Value {
        let mut fields = self.fields.clone();
        let wall_s = wall_time_ms / 1e3;
        let processed = self.input_tokens + self.output_tokens;
        fields.insert("wall_time_ms".to_owned(), json!(wall_time_ms));
        fields.insert("processed_tokens_per_s".to_owned(), json!(ratio(processed as f64, wall_s)));
        fields.insert("processed_output_tokens_per_s".to_owned(), json!(ratio(self.output_tokens as f64, wall_s)));
        Value::Object(fields)
    }

    /// Share of all requests that kept the SLA; none if no limit was set. A rejected request keeps none.
    pub fn good_share(&self) -> Option<f64> {
        self.sla_set.then(|| ratio(self.good_requests as f64, self.requests as f64))
    }

    /// Requests sent, completed and rejected.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.requests, self.completed, self.rejected)
    }

    fn put(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.fields.insert(name.into(), value.into());
    }

    fn add_distributions(&mut self) {
        let latencies = self.latencies;
        for (name, summary) in [
            ("ttft_ms", latencies.ttft),
            ("ttst_ms", latencies.ttst),
            ("tpot_ms", latencies.tpot),
            ("itl_ms", latencies.itl),
            ("e2e_latency_ms", latencies.e2e),
            ("output_token_throughput_per_user", latencies.throughput_per_user),
        ] {
            self.put(format!("mean_{name}"), summary.mean);
            self.put(format!("min_{name}"), summary.min);
            self.put(format!("max_{name}"), summary.max);
            self.put(format!("std_{name}"), summary.std);
            for (percentile, value) in PERCENTILES.iter().zip(summary.percentiles) {
                let prefix = if *percentile == 50 { "median".to_owned() } else { format!("p{percentile}") };
                self.put(format!("{prefix}_{name}"), value);
            }
        }
        self.put("num_ttft_samples", latencies.ttft.count);
        self.put("num_tpot_samples", latencies.tpot.count);
        self.put("num_e2e_latency_samples", latencies.e2e.count);
    }

    fn add_totals(&mut self, collector: &Collector) {
        let per_s = |amount: u64| ratio(amount as f64, self.duration_ms / 1e3);
        let (input, output) = (collector.input_tokens, collector.output_tokens);
        let rates = [
            ("request_throughput_rps", per_s(collector.completed)),
            ("input_throughput_tok_s", per_s(input)),
            ("output_throughput_tok_s", per_s(output)),
            ("total_throughput_tok_s", per_s(input + output)),
        ];
        let goodput = [
            ("goodput_request_throughput_rps", per_s(collector.good_requests)),
            ("goodput_output_throughput_tok_s", per_s(collector.good_output_tokens)),
        ];
        for (name, value) in rates {
            self.put(name, value);
        }
        if self.sla_set {
            self.put("goodput_completed_requests", collector.good_requests);
            for (name, value) in goodput {
                self.put(name, value);
            }
        }
        for (name, value) in [
            ("num_requests", collector.requests),
            ("completed_requests", collector.completed),
            ("rejected_requests", collector.rejected),
            ("total_input_tokens", input),
            ("total_output_tokens", output),
            ("processed_tokens", input + output),
            ("committed_prefill_tokens", collector.prefill_tokens),
            ("num_preemptions", collector.preemptions),
            ("num_forward_passes", collector.passes),
        ] {
            self.put(name, value);
        }
        if collector.reasoning.is_some() {
            self.put("total_reasoning_output_tokens", collector.reasoning_tokens);
        }
        self.put("duration_ms", self.duration_ms);
        self.put("prefix_cache_reused_ratio", self.reused_ratio);
        self.put("first_admission_prefix_cache_reused_ratio", self.first_reused_ratio);
    }

    fn add_provision(&mut self, config: &ReplayConfig, collector: &Collector) {
        let worker_seconds = f64::from(config.workers) * collector.last_token.as_secs();
        self.put("prefill_worker_seconds", 0.0);
        self.put("decode_worker_seconds", worker_seconds);
        self.put("prefill_gpus_per_worker", 0);
        self.put("decode_gpus_per_worker", config.gpus_per_worker);
        self.put("gpu_hours", worker_seconds * f64::from(config.gpus_per_worker) / 3600.0);
        self.put("kv_eviction_policy", config.kv_eviction_policy);
        self.put("power_w", Value::Null);
        self.put("power_coverage", Value::Null);
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
