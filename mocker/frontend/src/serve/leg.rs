//! A part of a request's way: the workers that are at it.

use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

use dynosim_wire::protocol::{Annotated, EngineOutput, PreprocessedRequest, RoutingHints};
use dynosim_wire::response::StreamError;
use dynosim_wire::time::now;
use uuid::Uuid;

use super::dispatch::{Denied, Sent, Wanted};
use super::prefill::{Prefill, decode_override, meeting, prefill_request};
use super::{Core, unavailable};
use crate::config::RoutingMode;
use crate::generate::GenerateError;
use crate::metrics::Phase;
use crate::migrate::Journey;
use crate::models::{Group, Pools, Worker};
use crate::route::Pins;

/// Prefill workers that may fail one request, after which it fails too.
const MAX_PREFILL_FAILURES: usize = 3;

/// What a request has gone through.
#[derive(Debug)]
pub(crate) struct Travel {
    pub(crate) pins: Pins,
    /// The client's name for the request, or the frontend's.
    pub(crate) name: String,
    /// Name of the request on the wire.
    pub(crate) id: String,
    /// When it came.
    pub(crate) since: Instant,
    /// Workers that did not take it or were lost.
    pub(crate) tried: Vec<u64>,
    prefill_failures: usize,
}

impl Travel {
    pub(crate) fn new(pins: Pins, id: String) -> Self {
        Self { pins, name: id.clone(), id, since: now(), tried: Vec::new(), prefill_failures: 0 }
    }

    /// A prefill worker has failed it; an error when that was once too often.
    pub(crate) fn prefill_failed(&mut self, worker: u64, reason: &str) -> Result<(), GenerateError> {
        tracing::warn!(request = self.id, worker, reason, "prefill failed");
        self.tried.push(worker);
        self.prefill_failures += 1;
        if self.prefill_failures < MAX_PREFILL_FAILURES {
            return Ok(());
        }
        Err(GenerateError::Failed(format!("prefill failed at {MAX_PREFILL_FAILURES} workers, at last: {reason}")))
    }
}

/// What a stream gave.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives for a moment; a box would be an allocation per token")]
pub(crate) enum Item {
    Output(EngineOutput),
    /// An annotation that concerns nobody here.
    Nothing,
    /// The answer is complete.
    End,
    /// The worker was lost.
    Lost(String),
    /// The worker failed.
    Failed(String),
}

/// Reads what a stream gave.
pub(crate) fn item(got: Result<Option<Annotated<EngineOutput>>, StreamError>) -> Item {
    match got {
        Ok(None) => Item::End,
        Ok(Some(Annotated { data: Some(output), .. })) => Item::Output(output),
        Ok(Some(Annotated { event: Some(event), comment, error, .. })) if event == "error" || error.is_some() => {
            let said = comment.filter(|comment| !comment.is_empty()).map(|comment| comment.join(" "));
            let reason = said.or_else(|| error.map(|error| error.to_string()));
            Item::Failed(reason.unwrap_or_else(|| "the worker failed and does not say why".to_owned()))
        }
        Ok(Some(_)) => Item::Nothing,
        Err(error @ StreamError::Broken { .. }) => Item::Lost(error.to_string()),
        Err(error @ StreamError::Codec(_)) => Item::Failed(error.to_string()),
    }
}

/// What a leg gave.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives for a moment; a box would be an allocation per token")]
pub(crate) enum Event {
    Worker(Item),
    /// Prefill failed before decode gave anything.
    PrefillFailed(String),
}

/// The workers that are at a request.
#[derive(Debug)]
pub(crate) struct Leg {
    pub(crate) output: Sent,
    pub(crate) prefill: Option<Prefill>,
    /// Prompt tokens that the cache of a prefill worker had that has ended.
    cached: Option<u32>,
    /// Its first output has come.
    pub(crate) answered: bool,
}

impl Leg {
    fn of(output: Sent, prefill: Option<Prefill>) -> Self {
        Self { output, prefill, cached: None, answered: false }
    }

    /// What comes next.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            let Some(prefill) = &mut self.prefill else { return Event::Worker(item(self.output.stream.next().await)) };
            let ended = tokio::select! {
                biased;
                got = self.output.stream.next() => return Event::Worker(item(got)),
                ended = prefill.ended() => ended,
            };
            match ended {
                Err(reason) if !self.answered => return Event::PrefillFailed(reason),
                _ => self.cached = self.prefill.take().and_then(|prefill| prefill.cached),
            }
        }
    }

    /// Prompt tokens that the prefill worker's cache had, as far as is known.
    pub(crate) fn prefill_cached(&self) -> Option<u32> {
        self.prefill.as_ref().map_or(self.cached, |prefill| prefill.cached)
    }

    /// The worker that gives the output.
    pub(crate) fn worker(&self) -> &Worker {
        self.output.lease.worker()
    }
}

type Opening<'a> = Pin<Box<dyn Future<Output = Result<Leg, Denied>> + Send + 'a>>;

impl Core {
    /// Finds workers for what is left of a request.
    pub(crate) async fn open(&self, group: &Group, journey: &mut Journey, travel: &mut Travel) -> Result<Leg, Denied> {
        let pools = group.pools();
        if let Some(missing) = &pools.missing {
            return Err(Denied::Error(unavailable(group, missing)));
        }
        let pin = travel.pins.worker;
        let pinned = |pool: &crate::models::Pool| pool.workers.iter().any(|worker| Some(worker.id()) == pin);
        let decode = match pin {
            Some(_) => pinned(&pools.decode),
            None => self.decodes(&pools),
        };
        match (decode, pools.prefill.is_empty()) {
            (false, _) => self.alone(group, &pools, Phase::Aggregated, &mut journey.request, travel).await,
            (true, true) => self.alone(group, &pools, Phase::Decode, &mut journey.request, travel).await,
            // Boxed: most requests never get here and need not carry its state.
            (true, false) => {
                let opening: Opening<'_> = Box::pin(self.disaggregated(group, &pools, journey, travel));
                opening.await
            }
        }
    }

    /// The next request goes to decode workers, not to aggregated ones; if there are both, as often as there are workers.
    fn decodes(&self, pools: &Pools) -> bool {
        match (pools.aggregated.workers.len(), pools.decode.workers.len()) {
            (_, 0) => false,
            (0, _) => true,
            (aggregated, decode) => self.router.below(aggregated + decode) >= aggregated,
        }
    }

    /// One worker does it all.
    async fn alone(
        &self,
        group: &Group,
        pools: &Pools,
        phase: Phase,
        request: &mut PreprocessedRequest,
        travel: &mut Travel,
    ) -> Result<Leg, Denied> {
        let pool = if phase == Phase::Decode { &pools.decode } else { &pools.aggregated };
        let Travel { pins, name, id, since, tried, .. } = travel;
        if let Some(rank) = pins.rank {
            request.routing.get_or_insert_default().dp_rank = Some(rank);
        }
        let wanted = Wanted { group, pool, phase, pin: pins.worker, rank: pins.rank, name, id, since: *since };
        let sent = self.dispatch(wanted, request, tried, |_, _| {}).await?;
        Ok(Leg::of(sent, None))
    }

    /// Prefill first, then decode with the same meeting, or with prefill's result.
    async fn disaggregated(
        &self,
        group: &Group,
        pools: &Pools,
        journey: &mut Journey,
        travel: &mut Travel,
    ) -> Result<Leg, Denied> {
        // Workers know each other's part of a handoff by the request's id, which must be a UUID (as published).
        if Uuid::try_parse(&travel.id).is_err() {
            travel.id = Uuid::new_v4().to_string();
        }
        let request = &mut journey.request;
        loop {
            let prefill = match self.prefill(group, pools, request, travel).await {
                Ok(prefill) => prefill,
                Err(Denied::Nobody(_)) if pools.decode.workers.iter().all(|worker| worker.can_serve_alone()) => {
                    clear_meeting(request);
                    return self.alone(group, pools, Phase::Decode, request, travel).await;
                }
                Err(Denied::Nobody(said)) => return Err(Denied::Error(no_prefill(group, said))),
                Err(other) => return Err(other),
            };
            let worker = prefill.sent.lease.worker().id();
            if request.bootstrap_info.is_some() {
                let leg = self.alone(group, pools, Phase::Decode, request, travel).await?;
                return Ok(Leg { prefill: Some(prefill), ..leg });
            }
            match prefill.result().await {
                Ok(result) => {
                    request.prefill_result = Some(result);
                    return self.alone(group, pools, Phase::Decode, request, travel).await;
                }
                Err(reason) => travel.prefill_failed(worker, &reason).map_err(Denied::Error)?,
            }
        }
    }

    /// Sends the prompt to a prefill worker; `request` then says what decode needs to know of it.
    async fn prefill(
        &self,
        group: &Group,
        pools: &Pools,
        request: &mut PreprocessedRequest,
        travel: &mut Travel,
    ) -> Result<Prefill, Denied> {
        clear_meeting(request);
        let meets = !self.router.mode.awaits_prefill();
        let Travel { pins, name, id, since, tried, .. } = travel;
        let (pin, rank) = (pins.prefill, pins.prefill_rank);
        let mut asked = prefill_request(request);
        let wanted = Wanted { group, pool: &pools.prefill, phase: Phase::Prefill, pin, rank, name, id, since: *since };
        let sent = loop {
            let fit = |worker: &Worker, asked: &mut PreprocessedRequest| {
                asked.bootstrap_info = meeting(worker).filter(|_| meets);
                asked.routing = Some(RoutingHints {
                    prefill_worker_id: Some(worker.id()),
                    dp_rank: rank,
                    prefill_dp_rank: rank,
                    ..asked.routing.take().unwrap_or_default()
                });
            };
            match self.dispatch(wanted, &mut asked, tried, fit).await {
                // Nothing was given to the client yet, so the next prefill worker may be asked.
                Err(Denied::Lost(_)) => {}
                other => break other,
            }
        };
        request.token_ids = std::mem::take(&mut asked.token_ids);
        let sent = sent?;
        request.bootstrap_info = asked.bootstrap_info.take();
        request.routing = asked.routing.take();
        request.router_config_override = Some(decode_override());
        let tokens = request.token_ids.len() as u32;
        self.metrics.router(&sent.lease.worker().endpoint.id()).prompt(&group.name, Phase::Prefill, tokens);
        Ok(Prefill::new(sent))
    }

    /// A request may not move if only the worker that it named may serve it.
    pub(crate) fn may_move(&self) -> bool {
        self.router.mode != RoutingMode::Direct
    }
}

fn clear_meeting(request: &mut PreprocessedRequest) {
    request.bootstrap_info = None;
    request.prefill_result = None;
    request.router_config_override = None;
}

fn no_prefill(group: &Group, said: Option<String>) -> GenerateError {
    let said = said.map(|said| format!(", the last one: {said}")).unwrap_or_default();
    unavailable(group, &format!("none of its prefill workers takes the request{said}"))
}
