//! The report: Dynamo's keys, flat.

use serde_json::{Map, Value, json};

use crate::collector::Collector;
use crate::config::{Fleet, Pool, ReplayConfig};
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

/// What the run ran on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Provision {
    /// Simulated workers.
    Simulated {
        /// Of a prefill pool.
        prefill: Workers,
        /// Of a decode pool, or of the only one.
        decode: Workers,
        /// Eviction order of the KV cache.
        kv_eviction_policy: &'static str,
    },
    /// A server that says nothing of its engines. `cached_tokens_seen`: it tells of prompt tokens in its cache.
    Unknown {
        /// Whether any answer told of cached tokens.
        cached_tokens_seen: bool,
    },
}

/// Workers of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Workers {
    /// How many.
    count: usize,
    /// GPUs of one of them.
    gpus_per_worker: u32,
}

impl Provision {
    pub(crate) fn simulated(config: &ReplayConfig) -> Self {
        let workers = |pool: &Pool| Workers { count: pool.engines.len(), gpus_per_worker: pool.gpus_per_worker };
        let (prefill, decode) = match &config.fleet {
            Fleet::Aggregated(pool) => (Workers::default(), workers(pool)),
            Fleet::Disaggregated { prefill, decode, .. } => (workers(prefill), workers(decode)),
        };
        Self::Simulated { prefill, decode, kv_eviction_policy: config.kv_eviction_policy }
    }
}

/// The clock of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Virtual,
    Wall,
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
    /// None where a server does not tell.
    pub(crate) reused_ratio: Option<f64>,
    /// None where a server does not tell.
    pub(crate) first_reused_ratio: Option<f64>,
    pub(crate) clock: Clock,
    fields: Map<String, Value>,
    good_requests: u64,
    sla_set: bool,
}

impl Report {
    pub(crate) fn new(provision: Provision, mut collector: Collector) -> Self {
        let latencies = Latencies {
            ttft: collector.ttft.summary_ms(),
            ttst: collector.ttst.summary_ms(),
            tpot: collector.tpot.summary_ms(),
            itl: collector.itl.summary_ms(),
            e2e: collector.e2e.summary_ms(),
            throughput_per_user: collector.itl.rate_summary(),
        };
        let of_input = |tokens: u64| ratio(tokens as f64, collector.input_tokens as f64);
        let reused = of_input(collector.reused_tokens);
        let (clock, reused_ratio, first_reused_ratio) = match provision {
            Provision::Simulated { .. } => {
                (Clock::Virtual, Some(reused), Some(of_input(collector.first_reused_tokens)))
            }
            Provision::Unknown { cached_tokens_seen } => (Clock::Wall, cached_tokens_seen.then_some(reused), None),
        };
        let mut report = Self {
            latencies,
            requests: collector.requests,
            completed: collector.completed,
            rejected: collector.rejected,
            input_tokens: collector.input_tokens,
            output_tokens: collector.output_tokens,
            duration_ms: collector.last_token.as_ms(),
            reused_ratio,
            first_reused_ratio,
            clock,
            fields: Map::new(),
            good_requests: collector.good_requests,
            sla_set: collector.sla.is_set(),
        };
        report.add_distributions();
        report.add_totals(&collector);
        match provision {
            Provision::Simulated { prefill, decode, kv_eviction_policy } => {
                report.add_workers(prefill, decode, &collector);
                report.put("kv_eviction_policy", kv_eviction_policy);
                report.add_passes(&collector);
            }
            Provision::Unknown { .. } => report.add_unknown(),
        }
        report.put("power_w", Value::Null);
        report.put("power_coverage", Value::Null);
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

    /// Adds a field, or replaces it: for what only one kind of run has to say.
    pub fn put(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.fields.insert(name.into(), value.into());
    }

    pub(crate) fn put_distribution(&mut self, name: &str, summary: &Summary) {
        self.put(format!("mean_{name}"), summary.mean);
        self.put(format!("min_{name}"), summary.min);
        self.put(format!("max_{name}"), summary.max);
        self.put(format!("std_{name}"), summary.std);
        for (percentile, value) in PERCENTILES.iter().zip(summary.percentiles) {
            let prefix = if *percentile == 50 { "median".to_owned() } else { format!("p{percentile}") };
            self.put(format!("{prefix}_{name}"), value);
        }
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
            self.put_distribution(name, &summary);
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

    fn add_workers(&mut self, prefill: Workers, decode: Workers, collector: &Collector) {
        let seconds = |pool: Workers| pool.count as f64 * collector.last_token.as_secs();
        let gpu_seconds = |pool: Workers| seconds(pool) * f64::from(pool.gpus_per_worker);
        self.put("prefill_worker_seconds", seconds(prefill));
        self.put("decode_worker_seconds", seconds(decode));
        self.put("prefill_gpus_per_worker", prefill.gpus_per_worker);
        self.put("decode_gpus_per_worker", decode.gpus_per_worker);
        self.put("gpu_hours", (gpu_seconds(prefill) + gpu_seconds(decode)) / 3600.0);
    }

    fn add_passes(&mut self, collector: &Collector) {
        self.put("committed_prefill_tokens", collector.prefill_tokens);
        self.put("num_preemptions", collector.preemptions);
        self.put("num_forward_passes", collector.passes);
    }

    /// A client cannot see these: null, so that reports of all kinds have the same keys.
    fn add_unknown(&mut self) {
        for name in [
            "committed_prefill_tokens",
            "decode_gpus_per_worker",
            "decode_worker_seconds",
            "gpu_hours",
            "kv_eviction_policy",
            "num_forward_passes",
            "num_preemptions",
            "prefill_gpus_per_worker",
            "prefill_worker_seconds",
        ] {
            self.put(name, Value::Null);
        }
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
