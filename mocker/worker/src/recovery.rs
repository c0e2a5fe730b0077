//! What a rank has published about its cache, for routers that missed some of it.

use std::sync::{Arc, Mutex, PoisonError};

use dynosim_wire::event::{RecoveryLog, RecoveryRequest, RouterEvent};
use dynosim_wire::request::{Call, Handler};
use dynosim_wire::response::SinkError;
use dynosim_wire::time;

use crate::metrics::{CallMetrics, Held};

/// Remembers what was published. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    log: Arc<Mutex<RecoveryLog>>,
}

impl Recovery {
    pub(crate) fn new(worker_id: u64, rank: u32) -> Self {
        Self { log: Arc::new(Mutex::new(RecoveryLog::new(worker_id, rank))) }
    }

    pub(crate) fn record(&self, events: &[RouterEvent]) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            log.record(event.event.clone());
        }
    }
}

/// Answers routers that missed events.
#[derive(Debug)]
pub(crate) struct AnswerRecovery {
    recovery: Recovery,
    metrics: CallMetrics,
}

impl AnswerRecovery {
    pub(crate) fn new(recovery: Recovery, metrics: CallMetrics) -> Self {
        Self { recovery, metrics }
    }
}

impl Handler for AnswerRecovery {
    fn handle(&self, call: Call) {
        let (recovery, metrics) = (self.recovery.clone(), self.metrics.clone());
        tokio::spawn(async move {
            let start = time::now();
            metrics.requests.inc();
            metrics.request_bytes.inc_by(call.body.len() as u64);
            let _held = Held::new(&metrics.in_flight);
            if let Err(error) = answer(&recovery, &metrics, call).await {
                tracing::debug!(%error, "missed KV events could not be sent");
            }
            metrics.durations.observe(time::now().duration_since(start).as_secs_f64());
        });
    }
}

async fn answer(recovery: &Recovery, metrics: &CallMetrics, call: Call) -> Result<(), SinkError> {
    let request: RecoveryRequest = match call.decode() {
        Ok(request) => request,
        Err(error) => return call.responder.refuse(&format!("the query cannot be read: {error}")).await,
    };
    let response = recovery.log.lock().unwrap_or_else(PoisonError::into_inner).answer(&request);
    let mut sink = call.responder.open().await?;
    sink.push_plain(&response)?;
    metrics.response_bytes.inc_by(sink.pending_bytes() as u64);
    sink.finish().await
}
