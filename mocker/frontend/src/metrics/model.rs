//! The series of one model, looked up once.

use std::sync::Arc;
use std::time::Duration;

use prometheus::{Histogram, IntCounter, IntGauge};

use super::families::Families;
use crate::migrate::MoveKind;

/// What a worker says of a model's limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelLimits {
    pub(crate) context_length: u32,
    pub(crate) kv_cache_block_size: u32,
    pub(crate) migration_limit: u32,
    pub(crate) total_kv_blocks: Option<u64>,
    pub(crate) max_num_seqs: Option<u64>,
    pub(crate) max_num_batched_tokens: Option<u64>,
}

/// Series of tokens; models that are not known have none.
#[derive(Debug)]
pub(crate) struct TokenSeries {
    pub(crate) output_tokens: IntCounter,
    pub(crate) ttft: Histogram,
    pub(crate) itl: Histogram,
    pub(crate) input: Histogram,
    pub(crate) output: Histogram,
    pub(crate) cached: Histogram,
}

/// The series of one model.
#[derive(Debug)]
pub(crate) struct ModelMetrics {
    pub(crate) name: Arc<str>,
    pub(crate) families: Arc<Families>,
    pub(crate) active: IntGauge,
    pub(crate) inflight: IntGauge,
    pub(crate) queued: IntGauge,
    pub(crate) duration: Histogram,
    pub(crate) tokens: Option<TokenSeries>,
}

impl ModelMetrics {
    /// Of a model that is served.
    pub(crate) fn known(families: &Arc<Families>, name: &Arc<str>) -> Self {
        let labels = [&**name];
        let tokens = TokenSeries {
            output_tokens: families.output_tokens.with_label_values(&labels),
            ttft: families.ttft.with_label_values(&labels),
            itl: families.itl.with_label_values(&labels),
            input: families.input.with_label_values(&labels),
            output: families.output.with_label_values(&labels),
            cached: families.cached.with_label_values(&labels),
        };
        Self { tokens: Some(tokens), ..Self::unknown(families, name) }
    }

    /// Of all others.
    pub(crate) fn unknown(families: &Arc<Families>, name: &str) -> Self {
        let labels = [name];
        Self {
            name: Arc::from(name),
            active: families.active.with_label_values(&labels),
            inflight: families.inflight.with_label_values(&labels),
            queued: families.queued.with_label_values(&labels),
            duration: families.duration.with_label_values(&labels),
            tokens: None,
            families: Arc::clone(families),
        }
    }

    /// What its workers say of its limits.
    pub(crate) fn set_limits(&self, limits: &ModelLimits) {
        let (to, labels) = (&self.families.limits, [&*self.name]);
        to.context_length.with_label_values(&labels).set(i64::from(limits.context_length));
        to.block_size.with_label_values(&labels).set(i64::from(limits.kv_cache_block_size));
        to.migration_limit.with_label_values(&labels).set(i64::from(limits.migration_limit));
        let said = [
            (&to.total_kv_blocks, limits.total_kv_blocks),
            (&to.max_num_seqs, limits.max_num_seqs),
            (&to.max_num_batched_tokens, limits.max_num_batched_tokens),
        ];
        for (gauges, value) in said {
            if let Some(value) = value {
                gauges.with_label_values(&labels).set(value as i64);
            }
        }
    }

    /// Requests for it can be served, or not.
    pub(crate) fn set_ready(&self, ready: bool) {
        self.families.limits.ready.with_label_values(&[&*self.name]).set(i64::from(ready));
    }

    /// A request moves on.
    pub(crate) fn moved(&self, kind: MoveKind) {
        self.families.migrations.with_label_values(&[kind.label(), &*self.name]).inc();
    }

    /// A move has ended: the request went on (`success`), failed (`failure`) or was cancelled (`cancelled`).
    pub(crate) fn move_ended(&self, kind: MoveKind, outcome: &str, took: Duration) {
        let labels = [kind.label(), &*self.name, outcome];
        self.families.migration_seconds.with_label_values(&labels).observe(took.as_secs_f64());
    }

    /// A request became too long to move.
    pub(crate) fn became_too_long(&self) {
        self.families.too_long.with_label_values(&[&*self.name]).inc();
    }
}
