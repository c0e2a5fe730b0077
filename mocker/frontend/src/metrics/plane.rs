//! The way of requests to workers and of their first answer back.

use std::time::Duration;

use prometheus::{Histogram, HistogramVec, IntCounter, IntGauge, IntGaugeVec};

use super::families::{Make, STEP_S};

/// What a worker is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Everything.
    Aggregated,
    /// The prompt.
    Prefill,
    /// The output.
    Decode,
}

impl Phase {
    /// All, in order of their numbers.
    const ALL: [Self; 3] = [Self::Aggregated, Self::Prefill, Self::Decode];

    /// Name in metrics, as published.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Aggregated => "aggregated",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

/// The request plane.
#[derive(Debug)]
pub(crate) struct PlaneMetrics {
    inflight: IntGauge,
    /// From the decision to ask until the request is on its way.
    queue: Histogram,
    /// Until the worker has said that it will answer.
    send: Histogram,
    /// Until its first output.
    roundtrip: Histogram,
    pub(crate) errors: IntCounter,
    route_stage: Histogram,
    roundtrip_stage: Histogram,
    dispatching: [IntGauge; 3],
}

const ROUNDTRIP_S: [f64; 11] = [1e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

impl PlaneMetrics {
    pub(super) fn new(make: &Make<'_>, stage: &HistogramVec) -> Result<Self, prometheus::Error> {
        let histogram = |name, help, bounds| make.histogram(name, help, bounds);
        let stages = make.gauges(&make.own("stage_requests"), "Requests in a stage", &["phase", "stage"])?;
        let dispatching =
            |stages: &IntGaugeVec| Phase::ALL.map(|phase| stages.with_label_values(&[phase.label(), "dispatch"]));
        Ok(Self {
            inflight: make.gauge("dynamo_request_plane_inflight_requests", "Requests at workers")?,
            queue: histogram(
                "dynamo_request_plane_queue_seconds",
                "Seconds until a request was handed to the request plane",
                &STEP_S,
            )?,
            send: histogram(
                "dynamo_request_plane_send_seconds",
                "Seconds until a worker had taken a request",
                &STEP_S,
            )?,
            roundtrip: histogram(
                "dynamo_request_plane_roundtrip_ttft_seconds",
                "Seconds from sending a request to its first output",
                &ROUNDTRIP_S,
            )?,
            errors: make.counter("dynamo_transport_tcp_errors_total", "Requests that did not reach a worker")?,
            route_stage: stage.with_label_values(&["route"]),
            roundtrip_stage: stage.with_label_values(&["transport_roundtrip"]),
            dispatching: dispatching(&stages),
        })
    }

    /// A request is being handed to a worker until the guard is dropped.
    pub(crate) fn dispatching(&self, phase: Phase) -> Counted {
        Counted::new(&self.dispatching[phase as usize])
    }

    /// A request is at a worker until the guard is dropped.
    pub(crate) fn in_flight(&self) -> Counted {
        Counted::new(&self.inflight)
    }

    /// A worker was chosen `after` the request came.
    pub(crate) fn routed(&self, after: Duration) {
        self.queue.observe(after.as_secs_f64());
        self.route_stage.observe(after.as_secs_f64());
    }

    /// A worker has taken a request.
    pub(crate) fn sent(&self, after: Duration) {
        self.send.observe(after.as_secs_f64());
    }

    /// The first output of a worker has come.
    pub(crate) fn answered(&self, after: Duration) {
        self.roundtrip.observe(after.as_secs_f64());
        self.roundtrip_stage.observe(after.as_secs_f64());
    }
}

/// Counts until dropped.
#[derive(Debug)]
pub(crate) struct Counted(IntGauge);

impl Counted {
    fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
