//! Watches one request from its body to its end.

use std::sync::Arc;
use std::time::Instant;

use super::model::ModelMetrics;
use crate::http::service::{Delivery, Endpoint, Finished, Observer, Outcome, Prepared};

/// Watches one request.
#[derive(Debug)]
pub(crate) struct Watcher {
    model: Arc<ModelMetrics>,
    endpoint: Endpoint,
    delivery: Delivery,
    received: Instant,
    /// When the last tokens came.
    last: Option<Instant>,
    finished: bool,
}

/// Class and reason of a failure, as published.
fn failure(outcome: Outcome) -> Option<(&'static str, &'static str)> {
    match outcome {
        Outcome::Complete => None,
        Outcome::Refused => Some(("InvalidRequest", "request.invalid")),
        Outcome::NotFound => Some(("NotFound", "request.not_found")),
        Outcome::Unavailable => Some(("Unavailable", "backend.unavailable")),
        Outcome::Failed => Some(("Backend", "backend.unknown")),
        Outcome::Cancelled => Some(("Cancelled", "request.cancelled")),
    }
}

fn error_type(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Complete => "",
        Outcome::Refused => "validation",
        Outcome::NotFound => "not_found",
        Outcome::Unavailable => "unavailable",
        Outcome::Failed => "internal",
        Outcome::Cancelled => "cancelled",
    }
}

impl Watcher {
    /// A request begins.
    pub(crate) fn new(model: Arc<ModelMetrics>, endpoint: Endpoint, delivery: Delivery, received: Instant) -> Self {
        let labels = [endpoint.label(), &*model.name, delivery.label()];
        model.families.started.with_label_values(&labels).inc();
        model.active.inc();
        model.inflight.inc();
        model.queued.inc();
        Self { model, endpoint, delivery, received, last: None, finished: false }
    }

    fn end(&mut self, outcome: Outcome) {
        self.finished = true;
        let Self { model, endpoint, delivery, .. } = &*self;
        let families = &model.families;
        if self.last.is_none() {
            model.queued.dec();
        }
        model.active.dec();
        model.inflight.dec();
        model.duration.observe(self.received.elapsed().as_secs_f64());
        let status = if outcome == Outcome::Complete { "success" } else { "error" };
        let labels = [endpoint.label(), error_type(outcome), &*model.name, delivery.label(), status];
        families.requests.with_label_values(&labels).inc();
        if let Some((class, reason)) = failure(outcome) {
            families.failures.with_label_values(&[class, reason]).inc();
        }
        if outcome == Outcome::Cancelled {
            families.disconnected.inc();
            families.cancellations.with_label_values(&[endpoint.label(), &*model.name, delivery.label()]).inc();
        }
    }
}

impl Observer for Watcher {
    fn prepared(&mut self, prompt: Prepared) {
        let families = &self.model.families;
        if !prompt.template.is_zero() {
            families.template.observe(prompt.template.as_secs_f64());
        }
        families.tokenize.observe(prompt.tokenize.as_secs_f64());
        families.tokenizer_ms.with_label_values(&["tokenize"]).observe(prompt.tokenize.as_secs_f64() * 1e3);
        let both = (prompt.template + prompt.tokenize).as_secs_f64();
        families.stage.with_label_values(&["preprocess"]).observe(both);
        if let Some(tokens) = &self.model.tokens {
            tokens.input.observe(f64::from(prompt.prompt_tokens));
        }
    }

    fn tokens(&mut self, count: u32, at: Instant) {
        let Some(series) = &self.model.tokens else { return };
        series.output_tokens.inc_by(u64::from(count));
        let (since, spread) = if let Some(last) = self.last.replace(at) {
            (last, count)
        } else {
            self.model.queued.dec();
            series.ttft.observe(at.saturating_duration_since(self.received).as_secs_f64());
            // Tokens that came together with the first came without a pause.
            (at, count.saturating_sub(1))
        };
        let each = at.saturating_duration_since(since).as_secs_f64() / f64::from(spread.max(1));
        for _ in 0..spread {
            series.itl.observe(each);
        }
    }

    fn finish(&mut self, end: Finished) {
        if self.finished {
            return;
        }
        let families = &self.model.families;
        if let (Some(series), true) = (&self.model.tokens, end.output_tokens > 0 || end.outcome == Outcome::Complete) {
            series.output.observe(f64::from(end.output_tokens));
            if let Some(cached) = end.cached_tokens {
                series.cached.observe(f64::from(cached));
            }
        }
        if end.output_tokens > 0 {
            let spent = end.detokenize.as_secs_f64();
            families.detokenized.inc_by(u64::from(end.output_tokens));
            families.detokenize_us.inc_by(spent * 1e6);
            let per_token_ms = spent * 1e3 / f64::from(end.output_tokens);
            families.tokenizer_ms.with_label_values(&["detokenize"]).observe(per_token_ms);
        }
        self.end(end.outcome);
    }
}

/// Without an end the client has gone.
impl Drop for Watcher {
    fn drop(&mut self) {
        if !self.finished {
            self.end(Outcome::Cancelled);
        }
    }
}
