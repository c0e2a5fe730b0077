//! What the runtime exports about calls: `dynamo_component_*` and `dynamo_work_handler_*`.
//!
//! Left out are the published metrics of parts that do not exist here, the queue before the handler and its permits, and
//! the transit time, which compares the clocks of two machines.

use prometheus::{Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use dynosim_wire::EndpointId;

use super::buckets;
use super::family::Families;
use crate::driver::MAX_REQUESTS;

const ENDPOINT_LABELS: [&str; 4] = ["dynamo_component", "dynamo_endpoint", "dynamo_namespace", "worker_id"];
const COMPONENT_LABELS: [&str; 3] = ["dynamo_component", "dynamo_namespace", "worker_id"];

/// The families.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    cancellations: IntCounterVec,
    in_flight: IntGaugeVec,
    request_bytes: IntCounterVec,
    response_bytes: IntCounterVec,
    durations: HistogramVec,
    requests: IntCounterVec,
    dropped_events: IntCounterVec,
    uptime: GaugeVec,
    first_response: Histogram,
    active: IntGauge,
    refused: IntCounter,
    engine_requests: IntGauge,
    rejections: IntCounter,
}

/// The metrics of one endpoint of one worker.
#[derive(Clone, Debug)]
pub(crate) struct CallMetrics {
    pub(crate) cancellations: IntCounter,
    pub(crate) in_flight: prometheus::IntGauge,
    pub(crate) request_bytes: IntCounter,
    pub(crate) response_bytes: IntCounter,
    pub(crate) durations: Histogram,
    pub(crate) requests: IntCounter,
    /// From the call to the promise of an answer.
    pub(crate) first_response: Histogram,
    /// Calls under way in this process.
    pub(crate) active: IntGauge,
    /// Calls that found no room.
    pub(crate) refused: IntCounter,
    /// Requests in engines of this process.
    pub(crate) engine_requests: IntGauge,
    /// Requests that found no room in an engine.
    pub(crate) rejections: IntCounter,
}

impl Calls {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let own = Families { registry, prefix: "dynamo_component_" };
        let counter = |name, help| own.counter(Some((name, help)), &ENDPOINT_LABELS);
        let in_flight = "Number of requests currently being processed by work handler";
        let in_flight =
            IntGaugeVec::new(Opts::new("dynamo_component_inflight_requests", in_flight), &ENDPOINT_LABELS)?;
        registry.register(Box::new(in_flight.clone()))?;
        let dropped = "Events that subscribers did not get because they did not read";
        let process = Process { registry };
        let capacity = process.gauge(
            "dynamo_work_handler_pool_capacity",
            "Configured worker-pool capacity (total permits)",
        )?;
        capacity.set(MAX_REQUESTS as i64);
        let first_response = "Backend processing time from handle_payload entry to prologue sent (seconds)";
        Ok(Self {
            cancellations: counter("cancellation_total", "Total number of requests cancelled by work handler")?,
            in_flight,
            request_bytes: counter(
                "request_bytes_total",
                "Total number of bytes received in requests by work handler",
            )?,
            response_bytes: counter(
                "response_bytes_total",
                "Total number of bytes sent in responses by work handler",
            )?,
            durations: own.histogram(
                ("request_duration_seconds", "Time spent processing requests by work handler"),
                buckets::CALL,
                &ENDPOINT_LABELS,
            )?,
            requests: counter("requests_total", "Total number of requests processed by work handler")?,
            dropped_events: own
                .counter(Some(("kv_publisher_engines_dropped_events_total", dropped)), &COMPONENT_LABELS)?,
            uptime: own.gauge(
                Some(("uptime_seconds", "Total uptime of the DistributedRuntime in seconds")),
                &["worker_id"],
            )?,
            first_response: process.histogram(
                "dynamo_work_handler_time_to_first_response_seconds",
                first_response,
                buckets::FIRST_RESPONSE,
            )?,
            active: process.gauge(
                "dynamo_work_handler_pool_active_tasks",
                "Current number of active worker-pool tasks (permits in use)",
            )?,
            refused: process.counter(
                "dynamo_work_handler_enqueue_rejected_total",
                "Times work was refused because there was no room for it",
            )?,
            engine_requests: process
                .gauge("dynamo_engine_request", "Current number of requests being handled by the engine")?,
            rejections: process.counter(
                "dynamo_rejection_request_total",
                "Requests rejected because the worker is at capacity",
            )?,
        })
    }

    pub(super) fn endpoint(&self, endpoint: &EndpointId, worker: &str) -> CallMetrics {
        let labels = [&*endpoint.component, &*endpoint.name, &*endpoint.namespace, worker];
        CallMetrics {
            cancellations: self.cancellations.with_label_values(&labels),
            in_flight: self.in_flight.with_label_values(&labels),
            request_bytes: self.request_bytes.with_label_values(&labels),
            response_bytes: self.response_bytes.with_label_values(&labels),
            durations: self.durations.with_label_values(&labels),
            requests: self.requests.with_label_values(&labels),
            first_response: self.first_response.clone(),
            active: self.active.clone(),
            refused: self.refused.clone(),
            engine_requests: self.engine_requests.clone(),
            rejections: self.rejections.clone(),
        }
    }

    pub(super) fn dropped_events(&self, endpoint: &EndpointId, worker: &str) -> IntCounter {
        self.dropped_events.with_label_values(&[&*endpoint.component, &*endpoint.namespace, worker])
    }

    pub(super) fn uptime(&self, worker: &str) -> Gauge {
        self.uptime.with_label_values(&[worker])
    }
}

/// Metrics without labels.
struct Process<'a> {
    registry: &'a Registry,
}

impl Process<'_> {
    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        let gauge = IntGauge::new(name, help)?;
        self.registry.register(Box::new(gauge.clone()))?;
        Ok(gauge)
    }

    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        let counter = IntCounter::new(name, help)?;
        self.registry.register(Box::new(counter.clone()))?;
        Ok(counter)
    }

    fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram, prometheus::Error> {
        let options = prometheus::HistogramOpts::new(name, help).buckets(buckets.to_vec());
        let histogram = Histogram::with_opts(options)?;
        self.registry.register(Box::new(histogram.clone()))?;
        Ok(histogram)
    }
}
