//! What each pass did, for planners; once a second while there is none.

use dynosim_engine::{Engine, Nanos, Pass, Queued};
use dynosim_wire::event::{EventPublisher, ForwardPassMetrics, QueuedRequests, ScheduledRequests};

/// Version of the message (as published).
const VERSION: u32 = 1;
/// Time after which an idle rank says so (as published).
const HEARTBEAT: Nanos = Nanos(1_000_000_000);

/// Publishes the passes of one rank.
#[derive(Debug)]
pub(crate) struct PassReport {
    worker_id: String,
    rank: u32,
    publisher: EventPublisher,
    counter: u64,
    /// When a heartbeat is due.
    heartbeat: Nanos,
}

impl PassReport {
    pub(crate) fn new(worker_id: u64, rank: u32, publisher: EventPublisher) -> Self {
        Self { worker_id: worker_id.to_string(), rank, publisher, counter: 0, heartbeat: Nanos::ZERO }
    }

    /// A pass from `start` to `end` is over.
    pub(crate) fn pass(&mut self, start: Nanos, end: Nanos, pass: &Pass, engine: &Engine) {
        if !pass.is_idle() {
            self.publish(end, end.since(start).as_secs(), scheduled(pass), engine);
        }
    }

    /// Sends a heartbeat if one is due; what comes back is when the next one is, unless a pass comes first.
    pub(crate) fn settle(&mut self, now: Nanos, engine: &Engine) -> Option<Nanos> {
        if engine.busy_until().is_some() {
            return None;
        }
        if now >= self.heartbeat {
            self.publish(now, 0.0, ScheduledRequests::default(), engine);
        }
        Some(self.heartbeat)
    }

    fn publish(&mut self, now: Nanos, wall_time: f64, scheduled_requests: ScheduledRequests, engine: &Engine) {
        self.heartbeat = now + HEARTBEAT;
        let message = ForwardPassMetrics {
            version: VERSION,
            worker_id: self.worker_id.clone(),
            dp_rank: self.rank,
            counter_id: self.counter,
            wall_time,
            scheduled_requests,
            queued_requests: queued(engine.queued(self.rank)),
        };
        self.counter += 1;
        if let Err(error) = self.publisher.publish(&message) {
            tracing::warn!(rank = self.rank, %error, "a pass was not published");
        }
    }
}

fn scheduled(pass: &Pass) -> ScheduledRequests {
    ScheduledRequests {
        num_prefill_requests: pass.prefill.requests.into(),
        sum_prefill_tokens: pass.prefill.new_tokens,
        var_prefill_length: pass.detail.prompts.variance(),
        sum_prefill_kv_tokens: pass.prefill.prefix_tokens,
        num_decode_requests: pass.decode.requests.into(),
        sum_decode_kv_tokens: pass.decode.kv_tokens,
        var_decode_kv_tokens: pass.detail.sequences.variance(),
    }
}

fn queued(queued: Queued) -> QueuedRequests {
    QueuedRequests {
        num_prefill_requests: queued.prompts.count,
        sum_prefill_tokens: queued.prompts.sum,
        var_prefill_length: queued.prompts.variance(),
        num_decode_requests: queued.sequences.count,
        sum_decode_kv_tokens: queued.sequences.sum,
        var_decode_kv_tokens: queued.sequences.variance(),
    }
}
