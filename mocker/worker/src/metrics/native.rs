//! What the simulated engine itself would export: `vllm:*`, `trtllm:*` or `sglang:*`.

use dynosim_engine::args::EngineType;
use prometheus::{GaugeVec, HistogramVec, IntCounterVec, Registry};

use super::buckets;
use super::family::{About, Families};

/// Names, helps and buckets of one engine type.
struct Names {
    prefix: &'static str,
    running: About<'static>,
    waiting: About<'static>,
    usage: &'static [About<'static>],
    hit_rate: Option<About<'static>>,
    preemptions: Option<About<'static>>,
    queries: Option<About<'static>>,
    hits: Option<About<'static>>,
    success: Option<About<'static>>,
    requests: Option<About<'static>>,
    first_token: (&'static str, &'static [f64]),
    inter_token: (&'static str, &'static [f64]),
    request: (&'static str, &'static [f64]),
}

const VLLM: Names = Names {
    prefix: "vllm:",
    running: ("num_requests_running", "Number of requests currently running on GPU."),
    waiting: ("num_requests_waiting", "Number of requests waiting to be processed."),
    usage: &[
        ("kv_cache_usage_perc", "KV-cache usage as a fraction of available cache blocks."),
        ("gpu_cache_usage_perc", "The same as kv_cache_usage_perc, under its former name."),
    ],
    hit_rate: None,
    preemptions: Some(("num_preemptions_total", "Cumulative number of request preemptions.")),
    queries: Some(("prefix_cache_queries_total", "Prompt tokens that the prefix cache was asked for.")),
    hits: Some(("prefix_cache_hits_total", "Prompt tokens that the prefix cache had.")),
    success: Some(("request_success_total", "Requests that have ended, by why.")),
    requests: None,
    first_token: ("Histogram of time to first token in seconds.", buckets::VLLM_FIRST_TOKEN),
    inter_token: ("Histogram of inter-token latency in seconds.", buckets::VLLM_INTER_TOKEN),
    request: ("Histogram of e2e request latency in seconds.", buckets::VLLM_REQUEST),
};

const TRTLLM: Names = Names { prefix: "trtllm:", ..VLLM };

const SGLANG: Names = Names {
    prefix: "sglang:",
    running: ("num_running_reqs", "The number of running requests."),
    waiting: ("num_queue_reqs", "The number of queued requests."),
    usage: &[("token_usage", "The token usage.")],
    hit_rate: Some(("cache_hit_rate", "Cache hit rate.")),
    preemptions: None,
    queries: None,
    hits: Some(("cached_tokens_total", "Number of cached prompt tokens.")),
    success: None,
    requests: Some(("num_requests_total", "Number of requests processed.")),
    first_token: ("Histogram of time to first token in seconds.", buckets::SGLANG_FIRST_TOKEN),
    inter_token: ("Histogram of inter-token latency in seconds.", buckets::SGLANG_INTER_TOKEN),
    request: ("Histogram of End-to-end request latency in seconds", buckets::SGLANG_REQUEST),
};

/// Labels of a family with their values for one rank.
type Labels = Vec<(&'static str, String)>;

/// Whether families tell workers or ranks apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Several {
    /// There are several workers in the process.
    pub workers: bool,
    /// They have several ranks.
    pub ranks: bool,
}

/// The families.
#[derive(Clone, Debug)]
pub(super) struct Native {
    engine_type: EngineType,
    several: Several,
    pub(super) running: GaugeVec,
    pub(super) waiting: GaugeVec,
    pub(super) usage: Vec<GaugeVec>,
    pub(super) hit_rate: GaugeVec,
    pub(super) preemptions: IntCounterVec,
    pub(super) queries: IntCounterVec,
    pub(super) hits: IntCounterVec,
    pub(super) prompt: IntCounterVec,
    pub(super) generation: IntCounterVec,
    pub(super) success: IntCounterVec,
    pub(super) requests: IntCounterVec,
    pub(super) first_token: HistogramVec,
    pub(super) inter_token: HistogramVec,
    pub(super) request: HistogramVec,
}

impl Native {
    pub(super) fn new(
        registry: &Registry,
        engine_type: EngineType,
        several: Several,
    ) -> Result<Self, prometheus::Error> {
        let names = match engine_type {
            EngineType::Vllm => VLLM,
            EngineType::Trtllm => TRTLLM,
            EngineType::Sglang => SGLANG,
        };
        let families = Families { registry, prefix: names.prefix };
        let keys = |labels: Labels| labels.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let state = keys(state_labels(engine_type, several, "", 0, ""));
        let flow = keys(flow_labels(engine_type, several, "", 0, ""));
        let mut reasons = flow.clone();
        reasons.push("finished_reason");
        let prompt = ("prompt_tokens_total", "Number of prefill tokens processed.");
        let generation = ("generation_tokens_total", "Number of generation tokens processed.");
        let span = |name, (help, bounds)| families.histogram((name, help), bounds, &flow);
        Ok(Self {
            engine_type,
            several,
            running: families.gauge(Some(names.running), &state)?,
            waiting: families.gauge(Some(names.waiting), &state)?,
            usage: names.usage.iter().map(|&about| families.gauge(Some(about), &state)).collect::<Result<_, _>>()?,
            hit_rate: families.gauge(names.hit_rate, &state)?,
            preemptions: families.counter(names.preemptions, &flow)?,
            queries: families.counter(names.queries, &flow)?,
            hits: families.counter(names.hits, &flow)?,
            prompt: families.counter(Some(prompt), &flow)?,
            generation: families.counter(Some(generation), &flow)?,
            success: families.counter(names.success, &reasons)?,
            requests: families.counter(names.requests, &flow)?,
            first_token: span("time_to_first_token_seconds", names.first_token)?,
            inter_token: span("inter_token_latency_seconds", names.inter_token)?,
            request: span("e2e_request_latency_seconds", names.request)?,
        })
    }

    /// Label values of gauges of one rank.
    pub(super) fn state_values(&self, model: &str, rank: u32, worker: &str) -> Vec<String> {
        values(state_labels(self.engine_type, self.several, model, rank, worker))
    }

    /// Label values of counters and histograms of one rank.
    pub(super) fn flow_values(&self, model: &str, rank: u32, worker: &str) -> Vec<String> {
        values(flow_labels(self.engine_type, self.several, model, rank, worker))
    }
}

fn values(labels: Labels) -> Vec<String> {
    labels.into_iter().map(|(_, value)| value).collect()
}

fn state_labels(engine_type: EngineType, several: Several, model: &str, rank: u32, worker: &str) -> Labels {
    let mut labels = flow_labels(engine_type, several, model, rank, worker);
    if engine_type == EngineType::Sglang {
        labels.extend(["moe_ep_rank", "pp_rank", "tp_rank"].map(|name| (name, "0".to_owned())));
    }
    labels
}

fn flow_labels(engine_type: EngineType, several: Several, model: &str, rank: u32, worker: &str) -> Labels {
    let mut labels = match engine_type {
        EngineType::Vllm | EngineType::Trtllm => vec![("engine", rank.to_string())],
        EngineType::Sglang => vec![("engine_type", "sglang".to_owned())],
    };
    labels.push(("model_name", model.to_owned()));
    if engine_type == EngineType::Sglang && several.ranks {
        labels.push(("dp_rank", rank.to_string()));
    }
    if several.workers {
        labels.push(("worker_id", worker.to_owned()));
    }
    labels
}
