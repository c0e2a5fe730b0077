//! Counts of what the webhooks are asked and answer.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

/// Answers take far less than the ten seconds that API servers wait.
const BUCKETS: [f64; 10] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0];

/// Metrics of the webhooks, with the published names and labels.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    duration: HistogramVec,
    requests: IntCounterVec,
    denials: IntCounterVec,
}

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered<'a> {
    pub(super) resource: &'a str,
    pub(super) operation: &'a str,
    pub(super) denial: Option<&'a str>,
}

impl WebhookMetrics {
    /// Makes them part of a registry.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let name = |rest: &str| format!("dynamo_operator_webhook_{rest}");
        let opts = HistogramOpts::new(name("duration_seconds"), "How long answers to webhook requests took");
        let metrics = Self {
            duration: HistogramVec::new(opts.buckets(BUCKETS.to_vec()), &["resource_type", "operation"])?,
            requests: IntCounterVec::new(
                Opts::new(name("requests_total"), "Webhook requests that were answered"),
                &["resource_type", "operation", "result"],
            )?,
            denials: IntCounterVec::new(
                Opts::new(name("denials_total"), "Webhook requests that were refused"),
                &["resource_type", "operation", "reason"],
            )?,
        };
        registry.register(Box::new(metrics.duration.clone()))?;
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.denials.clone()))?;
        Ok(metrics)
    }

    pub(super) fn count(&self, answered: Answered<'_>, took: Duration) {
        let Answered { resource, operation, denial } = answered;
        self.duration.with_label_values(&[resource, operation]).observe(took.as_secs_f64());
        let result = if denial.is_some() { "denied" } else { "allowed" };
        self.requests.with_label_values(&[resource, operation, result]).inc();
        if let Some(reason) = denial {
            self.denials.with_label_values(&[resource, operation, reason]).inc();
        }
    }
}
