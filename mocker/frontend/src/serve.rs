//! Requests to workers and outputs back.
//!
//! ```text
//!   generate ──► Core::open ──► dispatch: next worker of the pool until one takes it ──► Leg ──► Stream (Outputs)
//!                   │ decode worker chosen: prefill first, then decode with the same meeting      │
//!                   └◄──────────────── the worker was lost: prompt and tokens so far ◄────────────┘
//! ```
//!
//! Invariants:
//! - no task per stream: a [`Stream`] is polled by its reader, and dropping it cancels the work at all its workers;
//! - a token is given to the reader exactly once, however often the request moves;
//! - a request is asked of a worker at most once; every wait has a limit.

mod dispatch;
mod explain;
mod health;
mod leg;
mod prefill;
mod stream;

use std::sync::Arc;
use std::time::{Duration, Instant};

use dynosim_wire::protocol::PreprocessedRequest;
use dynosim_wire::request::RequestClient;
use http::StatusCode;

use crate::config::MigrationConfig;
use crate::generate::GenerateError;
use crate::http::service::{Call, Delivery, Endpoint, ListedModel, Page, Service};
use crate::kv::Kv;
use crate::metrics::{Metrics, Watcher};
use crate::migrate::Journey;
use crate::models::{Group, Model, Registry};
use crate::route::{Pins, Router};
use leg::Travel;
use stream::Stream;

/// When clients should try again while no worker serves a model.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What streams need to find workers.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) client: RequestClient,
    pub(crate) router: Router,
    /// In KV-aware mode.
    pub(crate) kv: Option<Arc<Kv>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) migration: MigrationConfig,
    /// A worker that is silent for that long is lost.
    pub(crate) idle_limit: Duration,
}

/// The serving side of the frontend.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) core: Arc<Core>,
    pub(crate) registry: Registry,
}

impl Service for Serving {
    type Model = Model;
    type Outputs = Stream;
    type Observer = Watcher;

    fn model(&self, name: &str) -> Option<Model> {
        self.registry.models.choose(name)
    }

    fn models(&self) -> Vec<ListedModel> {
        self.registry.models.listed()
    }

    fn observe(&self, model: &str, endpoint: Endpoint, delivery: Delivery, received: Instant) -> Watcher {
        Watcher::new(self.core.metrics.named(model), endpoint, delivery, received)
    }

    async fn generate(
        &self,
        model: &Model,
        mut request: PreprocessedRequest,
        call: Call,
    ) -> Result<Stream, GenerateError> {
        let group = &model.0;
        let pins = Pins::read(request.routing.as_ref(), &call.headers)?;
        request.mdc_sum = Some(group.identity.clone());
        let moves = self.core.migration.limit.unwrap_or(group.migration_limit);
        let journey = Journey::new(request, moves, self.core.migration.max_sequence_tokens);
        Stream::begin(&self.core, group, journey, Travel::new(pins, call.request_id)).await
    }

    fn routed(&self, request_id: &str) -> Option<String> {
        self.core.kv.as_ref()?.recent.line(request_id)
    }

    fn explain(&self, query: Option<&str>) -> Page {
        explain::explain(self.core.kv.as_deref(), query)
    }

    fn health(&self) -> Page {
        health::health(&self.registry.instances(), self.registry.knows())
    }

    fn live(&self) -> Page {
        health::live()
    }

    fn metrics(&self) -> Page {
        let instances = self.registry.instances();
        let there = |id| instances.iter().any(|instance| instance.instance_id == id);
        let (status, body) = match self.core.metrics.page(there) {
            Ok(page) => (StatusCode::OK, page),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("# metrics cannot be written: {error}\n")),
        };
        Page { status, content_type: prometheus::TEXT_FORMAT, body: body.into() }
    }
}

/// No worker for a request.
fn unavailable(group: &Group, why: &str) -> GenerateError {
    let reason = format!("model `{}` is not ready: {why}", group.name);
    GenerateError::Unavailable { reason, retry_after: RETRY_AFTER }
}
