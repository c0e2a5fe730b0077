//! The frontend's own series, by name.

use prometheus::core::Collector;
use prometheus::{
    Counter, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry,
};

use crate::config::Buckets;

/// Makes series and puts them on the page.
pub(crate) struct Make<'a> {
    pub(crate) registry: &'a Registry,
    /// What names of the frontend's own series begin with.
    pub(crate) prefix: &'a str,
}

type Made<T> = Result<T, prometheus::Error>;

impl Make<'_> {
    /// The full name of one of the frontend's own series.
    pub(crate) fn own(&self, name: &str) -> String {
        format!("{}_{name}", self.prefix)
    }

    fn put<T: Collector + Clone + 'static>(&self, made: T) -> Made<T> {
        self.registry.register(Box::new(made.clone()))?;
        Ok(made)
    }

    pub(crate) fn counter(&self, name: &str, help: &str) -> Made<IntCounter> {
        self.put(IntCounter::new(name, help)?)
    }

    pub(crate) fn float_counter(&self, name: &str, help: &str) -> Made<Counter> {
        self.put(Counter::new(name, help)?)
    }

    pub(crate) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Made<IntCounterVec> {
        self.put(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    pub(crate) fn gauge(&self, name: &str, help: &str) -> Made<IntGauge> {
        self.put(IntGauge::new(name, help)?)
    }

    pub(crate) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Made<IntGaugeVec> {
        self.put(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    pub(crate) fn float_gauges(&self, name: &str, help: &str, labels: &[&str]) -> Made<GaugeVec> {
        self.put(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    pub(crate) fn float_gauge(&self, opts: Opts) -> Made<Gauge> {
        self.put(Gauge::with_opts(opts)?)
    }

    pub(crate) fn histogram(&self, name: &str, help: &str, bounds: &[f64]) -> Made<Histogram> {
        self.put(Histogram::with_opts(HistogramOpts::new(name, help).buckets(bounds.to_vec()))?)
    }

    pub(crate) fn histograms(&self, name: &str, help: &str, bounds: &[f64], labels: &[&str]) -> Made<HistogramVec> {
        self.put(HistogramVec::new(HistogramOpts::new(name, help).buckets(bounds.to_vec()), labels)?)
    }
}

/// The frontend's own series.
#[derive(Debug)]
pub(crate) struct Families {
    pub(crate) requests: IntCounterVec,
    pub(crate) started: IntCounterVec,
    pub(crate) failures: IntCounterVec,
    pub(crate) active: IntGaugeVec,
    pub(crate) inflight: IntGaugeVec,
    pub(crate) queued: IntGaugeVec,
    pub(crate) disconnected: IntGauge,
    pub(crate) duration: HistogramVec,
    pub(crate) input: HistogramVec,
    pub(crate) output: HistogramVec,
    pub(crate) output_tokens: IntCounterVec,
    pub(crate) ttft: HistogramVec,
    pub(crate) itl: HistogramVec,
    pub(crate) cached: HistogramVec,
    pub(crate) template: Histogram,
    pub(crate) tokenize: Histogram,
    pub(crate) tokenizer_ms: HistogramVec,
    pub(crate) detokenize_us: Counter,
    pub(crate) detokenized: IntCounter,
    pub(crate) stage: HistogramVec,
    pub(crate) limits: LimitFamilies,
    pub(crate) migrations: IntCounterVec,
    pub(crate) migration_seconds: HistogramVec,
    pub(crate) too_long: IntCounterVec,
    pub(crate) cancellations: IntCounterVec,
}

/// What workers say of a model.
#[derive(Debug)]
pub(crate) struct LimitFamilies {
    pub(crate) ready: IntGaugeVec,
    pub(crate) context_length: IntGaugeVec,
    pub(crate) block_size: IntGaugeVec,
    pub(crate) migration_limit: IntGaugeVec,
    pub(crate) total_kv_blocks: IntGaugeVec,
    pub(crate) max_num_seqs: IntGaugeVec,
    pub(crate) max_num_batched_tokens: IntGaugeVec,
}

const REQUEST_LABELS: [&str; 3] = ["endpoint", "model", "request_type"];
const TEMPLATE_S: [f64; 8] = [1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05];
const STAGE_S: [f64; 11] = [1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0];
pub(super) const STEP_S: [f64; 9] = [1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0];
const TOKENIZER_MS: [f64; 11] = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
const MIGRATION_S: [f64; 13] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0];

impl Families {
    #[rustfmt::skip]
    pub(crate) fn new(make: &Make<'_>, buckets: &Buckets) -> Made<Self> {
        let by_request = |name: &str, help: &str| make.counters(&make.own(name), help, &REQUEST_LABELS);
        let gauges = |name: &str, help: &str| make.gauges(&make.own(name), help, &["model"]);
        let timed = |name: &str, help: &str, bounds: Vec<f64>| make.histograms(&make.own(name), help, &bounds, &["model"]);
        let plain = |name: &str, help: &str, bounds: &[f64]| make.histogram(&make.own(name), help, bounds);
        let tokens = buckets.input_sequence.bounds();
        Ok(Self {
            requests: make.counters(&make.own("requests_total"), "LLM requests by how they ended", &["endpoint", "error_type", "model", "request_type", "status"])?,
            started: by_request("requests_started_total", "LLM requests that were taken in")?,
            failures: make.counters(&make.own("failures_total"), "Requests that failed, by class and reason", &["class", "reason"])?,
            active: gauges("active_requests", "Requests between their body and the end of their answer")?,
            inflight: gauges("inflight_requests", "Requests that are being served")?,
            queued: gauges("queued_requests", "Requests that wait for their first token")?,
            disconnected: make.gauge(&make.own("disconnected_clients"), "Clients that went away before their answer was complete")?,
            duration: timed("request_duration_seconds", "Seconds that whole requests took", buckets.request_duration.bounds())?,
            input: timed("input_sequence_tokens", "Tokens of prompts", tokens.clone())?,
            output: timed("output_sequence_tokens", "Tokens of outputs", buckets.output_sequence.bounds())?,
            output_tokens: make.counters(&make.own("output_tokens_total"), "Output tokens, counted as they come", &["model"])?,
            ttft: timed("time_to_first_token_seconds", "Seconds until the first token", buckets.ttft.bounds())?,
            itl: timed("inter_token_latency_seconds", "Seconds between tokens", buckets.itl.bounds())?,
            cached: timed("cached_tokens", "Prompt tokens that the worker's prefix cache had", tokens)?,
            template: plain("template_seconds", "Seconds for chat templates", &TEMPLATE_S)?,
            tokenize: plain("tokenize_seconds", "Seconds for tokenizing prompts", &STEP_S)?,
            tokenizer_ms: make.histograms(&make.own("tokenizer_latency_ms"), "Milliseconds in the tokenizer per request", &TOKENIZER_MS, &["operation"])?,
            detokenize_us: make.float_counter(&make.own("detokenize_total_us"), "Microseconds spent on making text of tokens")?,
            detokenized: make.counter(&make.own("detokenize_token_count"), "Tokens made text")?,
            stage: make.histograms(&make.own("stage_duration_seconds"), "Seconds that requests spent in a stage", &STAGE_S, &["stage"])?,
            limits: LimitFamilies::new(make)?,
            migrations: make.counters(&make.own("model_migration_total"), "Requests that moved to another worker", &["migration_type", "model"])?,
            migration_seconds: make.histograms(&make.own("model_migration_duration_seconds"), "Seconds from the loss of a worker until the request went on or failed", &MIGRATION_S, &["migration_type", "model", "outcome"])?,
            too_long: make.counters(&make.own("model_migration_max_seq_len_exceeded_total"), "Requests that became too long to move", &["model"])?,
            cancellations: by_request("model_cancellation_total", "Requests that their client cancelled")?,
        })
    }
}

impl LimitFamilies {
    fn new(make: &Make<'_>) -> Made<Self> {
        let gauges = |name: &str, help: &str| make.gauges(&make.own(name), help, &["model"]);
        Ok(Self {
            ready: gauges("model_ready", "1 if requests for the model can be served, else 0")?,
            context_length: gauges("model_context_length", "Most tokens of a sequence of the model; 0: not limited")?,
            block_size: gauges("model_kv_cache_block_size", "Tokens per KV block of a worker")?,
            migration_limit: gauges("model_migration_limit", "Times that a request for the model may move")?,
            total_kv_blocks: gauges("model_total_kv_blocks", "KV blocks of a worker")?,
            max_num_seqs: gauges("model_max_num_seqs", "Most sequences that run at once at a worker")?,
            max_num_batched_tokens: gauges(
                "model_max_num_batched_tokens",
                "Most tokens that a worker computes at once",
            )?,
        })
    }
}
