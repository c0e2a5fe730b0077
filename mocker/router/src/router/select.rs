//! Choosing a rank.

use dynosim_engine::Nanos;
use serde::Serialize;

use super::{Router, Selection};
use crate::cost::Candidate;
use crate::event::Target;
use crate::index::Slot;
use crate::load::LoadView;
use crate::request::{Decision, Kept, Matched, Reason, Request, RouteError};

/// A decision with all that it was chosen from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The decision.
    pub decision: Decision,
    /// Every rank that the request could go to, by worker and rank.
    pub candidates: Vec<Candidate>,
}

impl Router {
    /// Chooses a rank and books nothing. Never waits.
    pub fn select(&mut self, now: Nanos, request: &Request<'_>) -> Result<Decision, RouteError> {
        self.consider(now, request)?;
        Ok(self.decide(now, request).1)
    }

    /// Chooses a rank and keeps the choice for [`Router::reserve_kept`], which books what is seen now.
    pub fn keep(&mut self, now: Nanos, id: u64, request: &Request<'_>) -> Result<Decision, RouteError> {
        self.consider(now, request)?;
        let (slot, decision) = self.decide(now, request);
        self.selections.insert(id, Selection { slot, decision, kept: Kept::new(request) });
        Ok(decision)
    }

    /// The candidates of the last choice, by worker and rank, with all that their costs come from.
    pub fn candidates(&self) -> &[Candidate] {
        &self.scratch.candidates
    }

    /// What the last choice was made from; `decision` is its outcome.
    pub fn explain(&self, decision: &Decision) -> Explanation {
        Explanation { decision: *decision, candidates: self.scratch.candidates.clone() }
    }

    /// Keeps what the choice for a request is made from, whenever that is: it may have to wait.
    pub fn watch(&mut self, id: u64) {
        self.watched = Some(id);
    }

    /// What the choice for the watched request was made from, if it has been made since this was last asked.
    pub fn take_explanation(&mut self) -> Option<Explanation> {
        self.explanation.take()
    }

    /// Cached blocks of a prompt on every schedulable rank, by worker and rank.
    pub fn overlap(&mut self, now: Nanos, block_hashes: &[u64], out: &mut Vec<(Target, Matched)>) {
        self.expire(now);
        self.look_up(block_hashes);
        let matched = |&slot: &Slot| (self.workers.seat(slot).target, self.matched(slot, block_hashes));
        out.clear();
        out.extend(self.workers.schedulable().iter().map(matched));
    }

    /// Loads of all schedulable ranks, by worker and rank.
    pub fn loads(&self, now: Nanos, out: &mut Vec<(Target, LoadView)>) {
        let view = |&slot: &Slot| (self.workers.seat(slot).target, self.loads.view(now, slot));
        out.clear();
        out.extend(self.workers.schedulable().iter().map(view));
    }

    /// What the loads would be with this request on each of its ranks. Requests are counted without it.
    pub fn potential_loads(
        &mut self,
        now: Nanos,
        request: &Request<'_>,
        out: &mut Vec<(Target, LoadView)>,
    ) -> Result<(), RouteError> {
        self.consider(now, request)?;
        let tracked = self.rules.tracks(request);
        out.clear();
        out.extend(self.scratch.candidates.iter().map(|candidate| {
            let added = if tracked { u64::from(candidate.effective_prefill_tokens) } else { 0 };
            let prefill_tokens = candidate.active_prefill_tokens + added;
            let view =
                LoadView { requests: candidate.active_requests, blocks: candidate.decode_blocks, prefill_tokens };
            (candidate.target, view)
        }));
        Ok(())
    }

    /// Finds and prices the candidates of a request.
    pub(super) fn consider(&mut self, now: Nanos, request: &Request<'_>) -> Result<(), RouteError> {
        if request.tokens == 0 && !(request.block_hashes.is_empty() && request.sequence_hashes.is_empty()) {
            return Err(RouteError::Invalid("a prompt without tokens has no blocks"));
        }
        self.expire(now);
        self.look_up(request.block_hashes);
        let bound = self.workers.bound();
        self.scratch.shared.reset(bound);
        self.loads.find(request.sequence_hashes, &mut self.scratch.shared);
        let mut candidates = std::mem::take(&mut self.scratch.candidates);
        candidates.clear();
        let fitting = self.workers.schedulable().iter().filter(|&&slot| self.workers.admits(slot, request));
        candidates.extend(fitting.map(|&slot| self.candidate(now, slot, request)));
        self.rules.price(request, &mut candidates);
        let none = candidates.is_empty();
        self.scratch.candidates = candidates;
        if none { Err(RouteError::NoCandidate) } else { Ok(()) }
    }

    fn candidate(&self, now: Nanos, slot: Slot, request: &Request<'_>) -> Candidate {
        let load = self.loads.view(now, slot);
        let matched = self.matched(slot, request.block_hashes);
        let shared = self.scratch.shared.blocks[slot as usize];
        Candidate {
            target: self.workers.seat(slot).target,
            slot,
            matched,
            active_prefill_tokens: load.prefill_tokens,
            active_requests: load.requests,
            decode_blocks: load.blocks + request.sequence_hashes.len() as u32 - shared,
            effective_prefill_tokens: self.rules.effective(request.tokens, matched),
            fade: 1.0,
            credit: 0.0,
            preference: self.workers.preference(slot, request),
            cost: 0.0,
        }
    }

    /// Looks a prompt up in the indexes of device blocks.
    fn look_up(&mut self, block_hashes: &[u64]) {
        let bound = self.workers.bound();
        let scratch = &mut self.scratch;
        scratch.device.reset(bound);
        self.index.find(block_hashes, &mut scratch.device);
        if let Some(sent) = &self.sent {
            scratch.predicted.reset(bound);
            sent.find(block_hashes, &mut scratch.predicted);
        }
    }

    /// What a rank has cached of the prompt last looked up.
    #[inline]
    fn matched(&self, slot: Slot, block_hashes: &[u64]) -> Matched {
        let known = self.scratch.device.blocks[slot as usize];
        let sent = self.sent.as_ref().map_or(0, |_| self.scratch.predicted.blocks[slot as usize]);
        let device = known.max(sent);
        let [host, disk] = &self.lower[slot as usize];
        if host.is_empty() && disk.is_empty() {
            return Matched { device, host: 0, disk: 0 };
        }
        let last = device.checked_sub(1);
        let mut parent = last.and_then(|last| match &self.sent {
            Some(index) if sent > known => index.block_at(&self.scratch.predicted, last),
            _ => self.index.block_at(&self.scratch.device, last),
        });
        let on_host = host.find(&mut parent, &block_hashes[device as usize..]);
        let on_disk = disk.find(&mut parent, &block_hashes[(device + on_host) as usize..]);
        Matched { device, host: on_host, disk: on_disk }
    }

    /// Picks one of the candidates.
    pub(super) fn decide(&mut self, now: Nanos, request: &Request<'_>) -> (Slot, Decision) {
        let candidates = &self.scratch.candidates;
        let bound = match (&self.sessions, request.session) {
            (Some(sessions), Some(session)) => sessions.find(now, session),
            _ => None,
        };
        let in_session = bound.and_then(|slot| candidates.iter().position(|candidate| candidate.slot == slot));
        let (at, reason) = match in_session {
            Some(at) => (at, Reason::Session),
            None => self.choice.among(candidates),
        };
        let chosen = candidates[at];
        let seat = self.workers.seat(chosen.slot);
        let partial = self.rules.blocks(request.tokens).saturating_sub(request.sequence_hashes.len() as u32);
        let blocks = chosen.decode_blocks + partial;
        let over = |share: Option<f64>, of: Option<u64>, value: f64| Some(value > share? * of? as f64);
        let decision = Decision {
            target: chosen.target,
            reason,
            cost: chosen.cost,
            matched: chosen.matched,
            effective_prefill_tokens: chosen.effective_prefill_tokens,
            potential_decode_blocks: blocks,
            active_prefill_tokens: chosen.active_prefill_tokens,
            decode_busy: over(
                self.config.conditional_disagg_decode_busy_threshold,
                seat.total_kv_blocks,
                f64::from(blocks),
            ),
            prefill_busy: over(
                self.config.conditional_disagg_prefill_busy_threshold,
                seat.max_num_batched_tokens,
                chosen.active_prefill_tokens as f64,
            ),
        };
        (chosen.slot, decision)
    }
}
