//! Serves the `generate` endpoint: one task per request, from the call to the last frame.

mod plan;
mod stream;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use dynosim_engine::{EngineConfig, KvTransfer, Reasoning, Role};
use dynosim_wire::protocol::PreprocessedRequest;
use dynosim_wire::request::{Call, Handler};
use dynosim_wire::response::Responder;
use dynosim_wire::time;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::driver::EngineHandle;
use crate::metrics::CallMetrics;
use crate::replayed::ReplayedOutputs;
use crate::tokens::Vocabulary;
use plan::Plan;

/// Whether blocks of different requests can be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Equal prefixes are one.
    ByContent,
    /// Prefix caching is off.
    None,
}

/// Whether KV events carry tokens, so that prompts have to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventTokens {
    /// They do.
    Kept,
    /// They do not.
    Dropped,
}

/// What all requests of a worker need.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) engine: EngineHandle,
    /// To refuse what the engine could never run.
    pub(crate) config: EngineConfig,
    pub(crate) block_size: u32,
    pub(crate) max_model_len: Option<u32>,
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) reasoning: Option<Reasoning>,
    pub(crate) replayed: Option<Arc<ReplayedOutputs>>,
    pub(crate) transfer: KvTransfer,
    pub(crate) sharing: Sharing,
    pub(crate) event_tokens: EventTokens,
    pub(crate) metrics: CallMetrics,
    /// Sets requests without content apart.
    pub(crate) salts: AtomicU64,
    pub(crate) tasks: TaskTracker,
    /// Ends what still runs after the grace time.
    pub(crate) stop: CancellationToken,
}

impl Serving {
    fn role(&self) -> Role {
        self.config.role
    }

    async fn answer(&self, call: Call) {
        let start = time::now();
        self.metrics.requests.inc();
        self.metrics.request_bytes.inc_by(call.body.len() as u64);
        self.metrics.in_flight.inc();
        self.metrics.active.inc();
        let decoded = call.decode::<PreprocessedRequest>();
        let Call { id, body, responder, .. } = call;
        drop(body);
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = async {
                match decoded {
                    Ok(request) => self.generate(start, id, request, responder).await,
                    Err(error) => refuse(responder, &format!("the request cannot be read: {error}")).await,
                }
            } => {}
        }
        self.metrics.active.dec();
        self.metrics.in_flight.dec();
        self.metrics.durations.observe(time::now().duration_since(start).as_secs_f64());
    }

    async fn generate(
        &self,
        start: std::time::Instant,
        id: String,
        request: PreprocessedRequest,
        responder: Responder,
    ) {
        let plan = match Plan::new(self, &id, &request) {
            Ok(plan) => plan,
            Err(reason) => return refuse(responder, &reason).await,
        };
        drop(request);
        if let Err(rejection) = self.config.check(plan.prompt_tokens, plan.output.planned()) {
            return stream::reject(self, responder, &rejection.to_string()).await;
        }
        if let Err(error) = stream::run(self, start, plan, responder).await {
            tracing::debug!(%id, %error, "an answer could not be sent");
        }
    }
}

async fn refuse(responder: Responder, reason: &str) {
    if let Err(error) = responder.refuse(reason).await {
        tracing::debug!(%error, "a refusal could not be sent");
    }
}

/// The endpoint's handler.
#[derive(Debug)]
pub(crate) struct Generate(pub(crate) Arc<Serving>);

impl Handler for Generate {
    fn handle(&self, call: Call) {
        let serving = self.0.clone();
        self.0.tasks.spawn(async move { serving.answer(call).await });
    }
}
