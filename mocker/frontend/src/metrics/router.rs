//! What routers measure, per component that they route to.

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec};

use super::families::Make;
use super::plane::Phase;
use crate::config::{BucketRange, Buckets};

const LABELS: [&str; 4] = ["dynamo_component", "dynamo_namespace", "router_id", "worker_id"];

/// Series of all components.
#[derive(Debug)]
pub(super) struct RouterFamilies {
    started: IntCounterVec,
    done: IntCounterVec,
    ttft: HistogramVec,
    itl: HistogramVec,
    input: HistogramVec,
    output: HistogramVec,
    router_id: String,
    worker_id: String,
}

/// Series of one component.
#[derive(Debug)]
pub(crate) struct RouterMetrics {
    /// Requests that a worker was chosen for.
    pub(crate) started: IntCounter,
    /// Requests that have ended.
    pub(crate) done: IntCounter,
    /// Seconds until the first output.
    pub(crate) ttft: Histogram,
    /// Mean seconds between tokens of a request.
    pub(crate) itl: Histogram,
    /// Tokens of an output.
    pub(crate) output: Histogram,
    input: HistogramVec,
    place: [String; 4],
}

impl RouterFamilies {
    pub(super) fn new(make: &Make<'_>, buckets: &Buckets, instance: u64) -> Result<Self, prometheus::Error> {
        let name = |name: &str| format!("dynamo_component_router_{name}");
        let histograms = |of, help, bounds: Vec<f64>| make.histograms(&name(of), help, &bounds, &LABELS);
        let itl = BucketRange { min: 0.001, max: 2.0, count: 13 };
        let with_model: Vec<_> = LABELS.into_iter().chain(["model", "phase"]).collect();
        let tokens = buckets.input_sequence.bounds();
        Ok(Self {
            started: make.counters(
                &name("requests_started_total"),
                "Requests that a worker was chosen for",
                &LABELS,
            )?,
            done: make.counters(&name("requests_total"), "Requests that have ended at a worker", &LABELS)?,
            ttft: histograms("time_to_first_token_seconds", "Seconds until the first output", buckets.ttft.bounds())?,
            itl: histograms("inter_token_latency_seconds", "Mean seconds between tokens of a request", itl.bounds())?,
            input: make.histograms(&name("input_sequence_tokens"), "Tokens of prompts", &tokens, &with_model)?,
            output: histograms("output_sequence_tokens", "Tokens of outputs", buckets.output_sequence.bounds())?,
            router_id: instance.to_string(),
            worker_id: format!("{instance:x}"),
        })
    }

    pub(super) fn of(&self, namespace: &str, component: &str) -> RouterMetrics {
        let place = [component, namespace, &self.router_id, &self.worker_id];
        RouterMetrics {
            started: self.started.with_label_values(&place),
            done: self.done.with_label_values(&place),
            ttft: self.ttft.with_label_values(&place),
            itl: self.itl.with_label_values(&place),
            output: self.output.with_label_values(&place),
            input: self.input.clone(),
            place: place.map(str::to_owned),
        }
    }
}

impl RouterMetrics {
    /// A prompt is sent to a worker.
    pub(crate) fn prompt(&self, model: &str, phase: Phase, tokens: u32) {
        let [component, namespace, router, worker] = &self.place;
        let labels = [component.as_str(), namespace, router, worker, model, phase.label()];
        self.input.with_label_values(&labels).observe(f64::from(tokens));
    }
}
