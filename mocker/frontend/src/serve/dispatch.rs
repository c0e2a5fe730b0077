//! One request to the first worker that takes it.

use std::sync::Arc;
use std::time::Instant;

use dynosim_router::RouteError;
use dynosim_wire::protocol::{EngineOutput, PreprocessedRequest};
use dynosim_wire::request::CallError;
use dynosim_wire::response::ResponseStream;
use dynosim_wire::time::now;

use super::{Core, RETRY_AFTER};
use crate::config::RoutingMode;
use crate::generate::GenerateError;
use crate::kv::{Booking, Choice, Kv, KvPools, Wish};
use crate::metrics::{Counted, Phase};
use crate::models::{Group, Lease, Pool, Worker};

/// A worker that has said that it will answer.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) stream: ResponseStream<EngineOutput>,
    pub(crate) lease: Lease,
    /// With KV-aware routing.
    pub(crate) booking: Option<Booking>,
    /// When the request was sent.
    pub(crate) at: Instant,
    _counted: Counted,
}

/// Nobody took a request.
#[derive(Debug)]
pub(crate) enum Denied {
    /// All that could be asked were; what the last one said.
    Nobody(Option<String>),
    /// A worker took it and was lost before it said that it would answer.
    Lost(String),
    /// No use asking others.
    Error(GenerateError),
}

/// A worker that is to be asked.
#[derive(Debug)]
struct Seat {
    worker: Arc<Worker>,
    /// With KV-aware routing: the rank, and the place in the books.
    booked: Option<(u32, Booking)>,
}

/// What is asked of whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) group: &'a Group,
    pub(crate) pool: &'a Pool,
    pub(crate) phase: Phase,
    /// The only worker that may be asked.
    pub(crate) pin: Option<u64>,
    /// The only rank of it that may be asked.
    pub(crate) rank: Option<u32>,
    /// The client's name for the request, or ours.
    pub(crate) name: &'a str,
    /// Name of the request on the wire.
    pub(crate) id: &'a str,
    /// When the request came.
    pub(crate) since: Instant,
}

impl Core {
    /// Sends `request` to workers in turn until one takes it. `fit` makes it that worker's; who did not take it is
    /// added to `tried`.
    pub(crate) async fn dispatch(
        &self,
        wanted: Wanted<'_>,
        request: &mut PreprocessedRequest,
        tried: &mut Vec<u64>,
        fit: impl Fn(&Worker, &mut PreprocessedRequest) + Send,
    ) -> Result<Sent, Denied> {
        let _dispatching = self.metrics.plane.dispatching(wanted.phase);
        let mut said = None;
        loop {
            let Some(Seat { worker, booked }) = self.seat(&wanted, request, tried).await? else {
                return Err(Denied::Nobody(said));
            };
            let lease = Lease::new(&worker);
            fit(&worker, request);
            let booking = booked.map(|(rank, booking)| {
                at_rank(request, wanted.phase, rank);
                booking
            });
            let at = now();
            self.metrics.plane.routed(at.saturating_duration_since(wanted.since));
            match self.client.call(&worker.endpoint, wanted.id, request).await {
                Ok(stream) => {
                    self.metrics.plane.sent(at.elapsed());
                    return Ok(Sent { stream, lease, booking, at, _counted: self.metrics.plane.in_flight() });
                }
                Err(error) => said = Some(self.refused(&worker, &error)?),
            }
            tried.push(worker.id());
        }
    }

    /// The worker that is asked next, with its rank if routers choose that.
    async fn seat(
        &self,
        wanted: &Wanted<'_>,
        request: &PreprocessedRequest,
        tried: &[u64],
    ) -> Result<Option<Seat>, Denied> {
        if let Some((kv, routers)) = &wanted.group.kv {
            return self.booked(kv, routers, wanted, request, tried).await;
        }
        let worker = self.candidate(wanted, tried)?;
        Ok(worker.map(|worker| Seat { worker: Arc::clone(worker), booked: None }))
    }

    /// A place by the KV router.
    async fn booked(
        &self,
        kv: &Kv,
        routers: &KvPools,
        wanted: &Wanted<'_>,
        request: &PreprocessedRequest,
        tried: &[u64],
    ) -> Result<Option<Seat>, Denied> {
        if wanted.pin.is_some() && self.candidate(wanted, tried)?.is_none() {
            return Ok(None);
        }
        if wanted.pin.is_none() && wanted.rank.is_some() {
            let reason = "router mode kv: the request names a rank but no worker";
            return Err(Denied::Error(GenerateError::Invalid(reason.to_owned())));
        }
        let hints = request.routing.as_ref();
        let tokens = &request.token_ids;
        let router = routers.of(wanted.phase);
        let wish = Wish {
            tokens,
            tried,
            worker: wanted.pin,
            rank: wanted.rank,
            priority: hints.and_then(|hints| hints.priority),
            expected_output: hints.and_then(|hints| hints.expected_output_tokens),
        };
        match router.route(wish).await {
            Ok((booking, placed)) => {
                let names = (wanted.name, &*wanted.group.name);
                kv.recent.remember(Choice::new(names, wanted.phase, (router.block_size(), tokens.len()), &placed));
                Ok(Some(Seat { worker: placed.worker, booked: Some((placed.decision.target.rank, booking)) }))
            }
            Err(RouteError::NoCandidate | RouteError::UnknownWorker) => Ok(None),
            Err(error @ RouteError::QueueFull) => Err(Denied::Error(GenerateError::Busy(error.to_string()))),
            Err(error) => Err(Denied::Error(GenerateError::Failed(error.to_string()))),
        }
    }

    /// The worker that is asked next.
    fn candidate<'a>(&self, wanted: &Wanted<'a>, tried: &[u64]) -> Result<Option<&'a Arc<Worker>>, Denied> {
        let pool = wanted.pool;
        match wanted.pin {
            Some(pin) if tried.contains(&pin) => Ok(None),
            Some(pin) => match pool.workers.iter().find(|worker| worker.id() == pin) {
                Some(worker) => Ok(Some(worker)),
                None => Err(Denied::Error(GenerateError::Invalid(format!(
                    "worker {pin} is named by the request but does not serve model `{}`",
                    wanted.group.name
                )))),
            },
            None if self.router.mode == RoutingMode::Direct && wanted.phase != Phase::Prefill => {
                Err(Denied::Error(GenerateError::Invalid(
                    "router mode direct: the request names no worker (nvext.backend_instance_id or header \
                     x-dynamo-worker-instance-id)"
                        .to_owned(),
                )))
            }
            None => Ok(self.router.choose(pool, tried)),
        }
    }

    /// What a worker that did not take a request said, if others may be asked.
    fn refused(&self, worker: &Worker, error: &CallError) -> Result<String, Denied> {
        let text = error.to_string();
        match error {
            CallError::Unreachable { .. } | CallError::Refused { .. } => {
                self.metrics.plane.errors.inc();
                worker.cool_down();
                tracing::debug!(worker = worker.id(), %text, "asking another worker");
                Ok(text)
            }
            CallError::NoAnswer { .. } => {
                self.metrics.plane.errors.inc();
                worker.cool_down();
                Err(Denied::Lost(text))
            }
            // Every worker would say so.
            CallError::TooLarge { .. } | CallError::Failed(_) => Err(Denied::Error(GenerateError::Invalid(text))),
            CallError::TooMany { .. } => {
                Err(Denied::Error(GenerateError::Unavailable { reason: text, retry_after: RETRY_AFTER }))
            }
            CallError::Codec(_) => Err(Denied::Error(GenerateError::Failed(text))),
        }
    }
}

/// Tells the worker which of its ranks was chosen.
fn at_rank(request: &mut PreprocessedRequest, phase: Phase, rank: u32) {
    let hints = request.routing.get_or_insert_default();
    hints.dp_rank = Some(rank);
    if phase == Phase::Prefill {
        hints.prefill_dp_rank = Some(rank);
    }
}
