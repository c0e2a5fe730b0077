//! Recent choices, for people who ask why a request went where it went.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use dynosim_router::{Candidate, Decision};
use serde::Serialize;

use super::book::Placed;
use crate::metrics::Phase;

/// Choices that are remembered.
const MAX_CHOICES: usize = 1024;
/// Costs of workers in them together.
const MAX_CANDIDATES: usize = 65_536;
/// Costs in a header: the cheapest ones.
const MAX_IN_HEADER: usize = 64;

/// A choice.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Choice {
    /// The client's name for the request, or the frontend's.
    request: String,
    model: String,
    /// Pool that was chosen from.
    phase: &'static str,
    block_size: usize,
    prompt_tokens: usize,
    decision: Decision,
    /// Every rank that the request could go to.
    candidates: Vec<Candidate>,
}

impl Choice {
    pub(crate) fn new(
        (request, model): (&str, &str),
        phase: Phase,
        (block_size, prompt_tokens): (usize, usize),
        placed: &Placed,
    ) -> Self {
        Self {
            request: request.to_owned(),
            model: model.to_owned(),
            phase: phase.label(),
            block_size,
            prompt_tokens,
            decision: placed.decision,
            candidates: placed.candidates.clone(),
        }
    }

    /// As one line for a header.
    fn line(&self) -> Line {
        let mut cheapest: Vec<_> = self.candidates.iter().collect();
        cheapest.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(a.target.cmp(&b.target)));
        let costs = cheapest.iter().take(MAX_IN_HEADER).map(|one| (one.target.to_string(), one.cost)).collect();
        Line {
            phase: self.phase,
            chosen: self.decision.target.to_string(),
            reason: serde_json::to_value(self.decision.reason).unwrap_or_default(),
            cost: self.decision.cost,
            cached_blocks: self.decision.matched.device,
            costs,
        }
    }
}

/// A choice in a header. Ranks are `WORKER.RANK`.
#[derive(Debug, Serialize)]
struct Line {
    phase: &'static str,
    chosen: String,
    reason: serde_json::Value,
    cost: f64,
    cached_blocks: u32,
    costs: BTreeMap<String, f64>,
}

/// The last choices.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    choices: VecDeque<Choice>,
    candidates: usize,
}

impl Recent {
    /// Remembers a choice; the oldest go.
    pub(crate) fn remember(&self, choice: Choice) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.candidates += choice.candidates.len();
        kept.choices.push_back(choice);
        while kept.choices.len() > MAX_CHOICES || (kept.candidates > MAX_CANDIDATES && kept.choices.len() > 1) {
            let Some(oldest) = kept.choices.pop_front() else { return };
            kept.candidates -= oldest.candidates.len();
        }
    }

    /// The choices of a request, in order; empty if it is not known, or not any more.
    pub(crate) fn of(&self, request: &str) -> Vec<Choice> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.choices.iter().filter(|choice| choice.request == request).cloned().collect()
    }

    /// Requests that can be asked for, the last one first.
    pub(crate) fn requests(&self) -> Vec<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<String> = kept.choices.iter().rev().map(|choice| choice.request.clone()).collect();
        names.dedup();
        names
    }

    /// The choices of a request as the value of a header.
    pub(crate) fn line(&self, request: &str) -> Option<String> {
        let lines: Vec<_> = self.of(request).iter().map(Choice::line).collect();
        if lines.is_empty() { None } else { serde_json::to_string(&lines).ok() }
    }
}
