//! Open requests: from their reservation to their end.

use dynosim_engine::Nanos;

use super::Router;
use crate::event::Target;
use crate::index::Slot;
use crate::request::{Decision, Request, RouteError};

impl Router {
    /// Chooses a rank and books the request there. Never waits. `id` names the request until it is freed.
    pub fn select_and_reserve(&mut self, now: Nanos, id: u64, request: &Request<'_>) -> Result<Decision, RouteError> {
        self.check_unused(id)?;
        self.consider(now, request)?;
        Ok(self.decide_and_book(now, id, request))
    }

    pub(super) fn decide_and_book(&mut self, now: Nanos, id: u64, request: &Request<'_>) -> Decision {
        let (slot, decision) = self.decide(now, request);
        self.book(now, (id, slot), request, decision.effective_prefill_tokens);
        decision
    }

    /// Books what [`Router::keep`] has chosen, as it was seen then; once.
    pub fn reserve_kept(&mut self, now: Nanos, id: u64) -> Result<Decision, RouteError> {
        let selection = self.selections.remove(&id).ok_or(RouteError::UnknownRequest)?;
        if let Err(error) = self.check_unused(id) {
            self.selections.insert(id, selection);
            return Err(error);
        }
        let request = selection.kept.request();
        self.book(now, (id, selection.slot), &request, selection.decision.effective_prefill_tokens);
        Ok(selection.decision)
    }

    /// Books a request on a rank of the caller's choice. Prompt tokens count only as far as they are given.
    pub fn reserve(
        &mut self,
        now: Nanos,
        id: u64,
        target: Target,
        request: &Request<'_>,
        effective_prefill_tokens: Option<u32>,
    ) -> Result<(), RouteError> {
        self.check_unused(id)?;
        if !self.workers.knows(target.worker) {
            return Err(RouteError::UnknownWorker);
        }
        let slot = self.workers.slot(target).ok_or(RouteError::UnknownRank)?;
        if effective_prefill_tokens.is_some_and(|tokens| tokens > request.tokens) {
            return Err(RouteError::Invalid("more prompt tokens to compute than the prompt has"));
        }
        self.expire(now);
        self.book(now, (id, slot), request, effective_prefill_tokens.unwrap_or(0));
        Ok(())
    }

    pub(super) fn check_unused(&self, id: u64) -> Result<(), RouteError> {
        let waits = self.queue.as_ref().is_some_and(|queue| queue.has(id));
        if waits || self.open.contains_key(&id) { Err(RouteError::Conflict) } else { Ok(()) }
    }

    fn book(&mut self, now: Nanos, (id, slot): (u64, Slot), request: &Request<'_>, effective: u32) {
        let prefill = if self.rules.tracks(request) { effective } else { 0 };
        let estimator = self.estimator.as_mut().filter(|_| prefill > 0);
        let expected = estimator.map(|estimator| estimator.duration(prefill, request.tokens.saturating_sub(prefill)));
        let booking = self.loads.book(now, (id, slot), request.sequence_hashes, prefill, expected);
        self.open.insert(id, booking);
        if let Some(sent) = &mut self.sent {
            sent.sent(now, slot, request.block_hashes, request.sequence_hashes);
        }
        if let (Some(sessions), Some(session)) = (&mut self.sessions, request.session) {
            sessions.bind(now, session, slot);
        }
    }

    /// Where an open request is booked.
    pub fn target(&self, id: u64) -> Option<Target> {
        self.open.get(&id).map(|booking| self.workers.seat(booking.slot).target)
    }

    /// A request's prompt is computed; it may be said again.
    pub fn prefill_complete(&mut self, now: Nanos, id: u64) -> Result<(), RouteError> {
        let booking = self.open.get_mut(&id).ok_or(RouteError::UnknownRequest)?;
        self.loads.computed(now, id, booking);
        self.drain(now);
        Ok(())
    }

    /// A request is over, whether or not its prompt was computed.
    pub fn free(&mut self, now: Nanos, id: u64) -> Result<(), RouteError> {
        let booking = self.open.remove(&id).ok_or(RouteError::UnknownRequest)?;
        self.loads.end(now, id, &booking);
        self.drain(now);
        Ok(())
    }

    /// A request has filled one more block. `decay` from 0 to 1: from now on this is the weight of all blocks that only
    /// this request holds, of its prompt too.
    pub fn add_output_block(&mut self, id: u64, decay: Option<f64>) -> Result<(), RouteError> {
        if decay.is_some_and(|fraction| !(0.0..=1.0).contains(&fraction)) {
            return Err(RouteError::Invalid("decay_fraction must be from 0 to 1"));
        }
        let booking = self.open.get_mut(&id).ok_or(RouteError::UnknownRequest)?;
        self.loads.add_output(booking, decay);
        Ok(())
    }

    /// Open requests.
    pub fn open_requests(&self) -> usize {
        self.open.len()
    }

    /// Ends requests that began more than `age` ago: whoever had them may have died. Returns how many.
    pub fn forget_older(&mut self, now: Nanos, age: Nanos) -> usize {
        let old = self.open.iter().filter(|(_, booking)| now.since(booking.since) > age).map(|(&id, _)| id);
        let mut old: Vec<u64> = old.collect();
        old.sort_unstable();
        for id in &old {
            if let Some(booking) = self.open.remove(id) {
                self.loads.end(now, *id, &booking);
            }
        }
        self.drain(now);
        old.len()
    }
}
