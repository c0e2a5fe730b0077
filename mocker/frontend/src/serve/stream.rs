//! The outputs of one request, whichever workers give them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use dynosim_wire::protocol::{EngineOutput, FinishReason};
use dynosim_wire::time::now;
use tokio::time::{Sleep, sleep};

use super::dispatch::Denied;
use super::leg::{Event, Item, Leg, Travel, item};
use super::{Core, unavailable};
use crate::generate::{GenerateError, Outputs};
use crate::metrics::{Phase, RouterMetrics, WorkerGauges};
use crate::migrate::{Journey, Next};
use crate::models::Group;

/// The outputs of one request.
#[derive(Debug)]
pub(crate) struct Stream {
    core: Arc<Core>,
    group: Arc<Group>,
    journey: Journey,
    travel: Travel,
    /// None once the request is over.
    leg: Option<Leg>,
    /// What was seen but could not be dealt with without waiting.
    pending: Option<Event>,
    router: Arc<RouterMetrics>,
    gauges: WorkerGauges,
    first: Option<Instant>,
    last: Instant,
    /// Watches for silence; armed when the reader first waits, and re-armed only when it goes off.
    idle: Option<Pin<Box<Sleep>>>,
}

/// What became of an event.
#[allow(clippy::large_enum_variant, reason = "it lives for a moment; a box would be an allocation per token")]
enum Taken {
    Output(EngineOutput),
    /// Look again.
    Again,
    /// The request must move.
    Lost(String),
}

impl Stream {
    /// Finds workers for a new request.
    pub(crate) async fn begin(
        core: &Arc<Core>,
        group: &Arc<Group>,
        mut journey: Journey,
        mut travel: Travel,
    ) -> Result<Self, GenerateError> {
        let leg = find(core, group, &mut journey, &mut travel).await?;
        let worker = leg.worker();
        let router = core.metrics.router(&worker.endpoint.id());
        let gauges = core.metrics.workers.of(worker.id(), worker.kind);
        let phase = if leg.prefill.is_some() || journey.request.prefill_result.is_some() {
            Phase::Decode
        } else {
            Phase::Aggregated
        };
        router.started.inc();
        router.prompt(&group.name, phase, journey.prompt_tokens());
        gauges.input.set(f64::from(journey.prompt_tokens()));
        let last = travel.since;
        Ok(Self {
            core: Arc::clone(core),
            group: Arc::clone(group),
            journey,
            travel,
            leg: Some(leg),
            pending: None,
            router,
            gauges,
            first: None,
            last,
            idle: None,
        })
    }

    /// Waits for the next event, but not for ever.
    async fn event(&mut self) -> Option<Event> {
        if let Some(event) = self.pending.take() {
            return Some(event);
        }
        let limit = self.core.idle_limit;
        let leg = self.leg.as_mut()?;
        let since = now();
        let idle = self.idle.get_or_insert_with(|| Box::pin(sleep(limit)));
        loop {
            tokio::select! {
                biased;
                event = leg.next() => return Some(event),
                () = idle.as_mut() => {}
            }
            // It may have been armed for an earlier wait.
            let Some(left) = limit.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) else {
                let reason = format!("worker {} was silent for {} s", leg.worker().id(), limit.as_secs());
                return Some(Event::Worker(Item::Lost(reason)));
            };
            idle.as_mut().reset(tokio::time::Instant::now() + left);
        }
    }

    /// Deals with an event as far as that needs no waiting.
    fn take(&mut self, event: Event) -> Result<Taken, GenerateError> {
        match event {
            Event::Worker(Item::Output(output)) => self.output(output),
            Event::Worker(Item::Nothing) => Ok(Taken::Again),
            Event::Worker(Item::Lost(reason)) | Event::PrefillFailed(reason) => Ok(Taken::Lost(reason)),
            Event::Worker(Item::End) => Ok(Taken::Lost("the worker ended its answer without saying why".to_owned())),
            Event::Worker(Item::Failed(reason)) => {
                self.over(false);
                Err(GenerateError::Failed(reason))
            }
        }
    }

    fn output(&mut self, mut output: EngineOutput) -> Result<Taken, GenerateError> {
        if let Some(FinishReason::Error(reason)) = output.finish_reason {
            self.over(false);
            return Err(GenerateError::Failed(reason));
        }
        self.measure(&output);
        self.count_prefill_cache(&mut output);
        if self.journey.took(&mut output) {
            self.group.metrics.became_too_long();
        }
        if output.finish_reason.is_some() {
            self.over(true);
        }
        Ok(Taken::Output(output))
    }

    /// Decode sees every prompt as new: what prefill had in its cache is told in its place.
    fn count_prefill_cache(&self, output: &mut EngineOutput) {
        let Some(cached) = self.leg.as_ref().and_then(Leg::prefill_cached) else { return };
        if let Some(usage) = &mut output.completion_usage {
            let told = &mut usage.prompt_tokens_details.get_or_insert_default().cached_tokens;
            *told = (*told).max(Some(cached));
        }
    }

    fn measure(&mut self, output: &EngineOutput) {
        let at = now();
        let metrics = &self.core.metrics;
        if let Some(leg) = self.leg.as_mut().filter(|leg| !leg.answered) {
            leg.answered = true;
            if let Some(booking) = &mut leg.output.booking {
                booking.computed();
            }
            metrics.plane.answered(at.saturating_duration_since(leg.output.at));
            if let Some((kind, since)) = self.journey.lost_at.take() {
                self.group.metrics.move_ended(kind, "success", at.saturating_duration_since(since));
            }
        }
        if output.token_ids.is_empty() {
            return;
        }
        if let Some(booking) = self.leg.as_mut().and_then(|leg| leg.output.booking.as_mut()) {
            booking.output(output.token_ids.len() as u32);
        }
        if self.first.is_none() {
            self.first = Some(at);
            let ttft = at.saturating_duration_since(self.travel.since).as_secs_f64();
            self.router.ttft.observe(ttft);
            self.gauges.ttft.set(ttft);
        } else {
            let pause = at.saturating_duration_since(self.last).as_secs_f64();
            self.gauges.itl.set(pause / output.token_ids.len() as f64);
        }
        self.last = at;
    }

    /// The request is over; `complete`: with its finish.
    fn over(&mut self, complete: bool) {
        let Some(leg) = self.leg.take() else { return };
        self.idle = None;
        self.pending = None;
        self.router.done.inc();
        self.router.output.observe(f64::from(self.journey.made()));
        if let (Some(first), made @ 2..) = (self.first, self.journey.made()) {
            let span = self.last.saturating_duration_since(first).as_secs_f64();
            self.router.itl.observe(span / f64::from(made - 1));
        }
        if let (Some(prefill), true) = (leg.prefill, complete) {
            prefill.end_later();
        }
    }

    /// The workers were lost: others go on, or the end that was lost is made good.
    async fn go_on(&mut self, reason: String, prefill_failed: bool) -> Result<Option<EngineOutput>, GenerateError> {
        let Some(leg) = self.leg.take() else { return Ok(None) };
        self.idle = None;
        let at_prefill = leg.prefill.as_ref().map(|prefill| prefill.sent.lease.worker().id());
        let retried = prefill_failed.then_some(at_prefill).flatten();
        let worker = leg.worker().id();
        // Its work must have ended before another begins.
        drop(leg);
        let moved = if let Some(prefill) = retried {
            self.travel.prefill_failed(prefill, &reason).map(|()| None)
        } else {
            self.travel.tried.push(worker);
            self.next_leg(&reason)
        };
        let outcome = match moved {
            Ok(Some(end)) => return Ok(Some(end)),
            Ok(None) => find(&self.core, &self.group, &mut self.journey, &mut self.travel).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(leg) => {
                self.gauges = self.core.metrics.workers.of(leg.worker().id(), leg.worker().kind);
                self.leg = Some(leg);
                Ok(None)
            }
            Err(error) => {
                if let Some((kind, since)) = self.journey.lost_at.take() {
                    self.group.metrics.move_ended(kind, "failure", since.elapsed());
                }
                self.router.done.inc();
                Err(self.in_midst(error))
            }
        }
    }

    /// Whether the request may move: none if so, its end if only that was lost.
    fn next_leg(&mut self, reason: &str) -> Result<Option<EngineOutput>, GenerateError> {
        let next = self.journey.lost(now());
        match next {
            Next::End(finish) => {
                self.router.done.inc();
                Ok(Some(self.journey.end(finish)))
            }
            Next::Move(kind) if self.core.may_move() => {
                tracing::warn!(request = self.travel.id, reason, tokens = self.journey.made(), "request moves on");
                self.travel.pins = crate::route::Pins::default();
                self.group.metrics.moved(kind);
                Ok(None)
            }
            Next::Move(_) | Next::GiveUp => Err(GenerateError::Failed(reason.to_owned())),
        }
    }

    /// An answer that has begun can't be told to come back later.
    fn in_midst(&self, error: GenerateError) -> GenerateError {
        match error {
            GenerateError::Unavailable { reason, .. } if self.journey.made() > 0 => GenerateError::Failed(reason),
            other => other,
        }
    }

    /// Decode failed before it gave anything: the failure may be that of prefill.
    async fn blame(&mut self, event: Event) -> Event {
        let Event::Worker(failed @ (Item::Failed(_) | Item::Output(_))) = event else { return event };
        let failure = match &failed {
            Item::Failed(_) => true,
            Item::Output(output) => matches!(output.finish_reason, Some(FinishReason::Error(_))),
            _ => false,
        };
        let Some(leg) = self.leg.as_mut().filter(|leg| failure && !leg.answered) else { return Event::Worker(failed) };
        let Some(prefill) = leg.prefill.as_mut() else { return Event::Worker(failed) };
        match prefill.verdict().await {
            Some(reason) => Event::PrefillFailed(reason),
            None => Event::Worker(failed),
        }
    }
}

impl Outputs for Stream {
    async fn next(&mut self) -> Result<Option<EngineOutput>, GenerateError> {
        loop {
            let Some(event) = self.event().await else { return Ok(None) };
            let event = self.blame(event).await;
            let prefill_failed = matches!(event, Event::PrefillFailed(_));
            match self.take(event)? {
                Taken::Output(output) => return Ok(Some(output)),
                Taken::Again => {}
                Taken::Lost(reason) => {
                    if let Some(end) = self.go_on(reason, prefill_failed).await? {
                        return Ok(Some(end));
                    }
                }
            }
        }
    }

    fn next_ready(&mut self) -> Result<Option<EngineOutput>, GenerateError> {
        loop {
            if self.pending.is_some() {
                return Ok(None);
            }
            let Some(leg) = &mut self.leg else { return Ok(None) };
            let got = leg.output.stream.next_ready();
            if matches!(got, Ok(None)) {
                return Ok(None);
            }
            match item(got) {
                Item::Output(output) if !matches!(output.finish_reason, Some(FinishReason::Error(_))) => {
                    if let Taken::Output(output) = self.output(output)? {
                        return Ok(Some(output));
                    }
                }
                Item::Nothing => {}
                other => self.pending = Some(Event::Worker(other)),
            }
        }
    }
}

/// A request whose reader goes away is cancelled: dropping the leg tells the workers.
impl Drop for Stream {
    fn drop(&mut self) {
        if let Some((kind, since)) = self.journey.lost_at.take() {
            self.group.metrics.move_ended(kind, "cancelled", since.elapsed());
        }
        self.over(false);
    }
}

/// Finds workers, moving on from those that are lost before they answer.
async fn find(core: &Core, group: &Group, journey: &mut Journey, travel: &mut Travel) -> Result<Leg, GenerateError> {
    loop {
        let lost = match core.open(group, journey, travel).await {
            Ok(leg) => return Ok(leg),
            Err(Denied::Error(error)) => return Err(error),
            Err(Denied::Nobody(said)) => {
                let said = said.map(|said| format!(", the last one: {said}")).unwrap_or_default();
                return Err(unavailable(group, &format!("none of its workers takes the request{said}")));
            }
            Err(Denied::Lost(reason)) => reason,
        };
        match journey.lost(now()) {
            Next::Move(kind) if core.may_move() => {
                tracing::warn!(request = travel.id, reason = lost, "request moves on before its first output");
                group.metrics.moved(kind);
            }
            _ => return Err(GenerateError::Failed(lost)),
        }
    }
}
