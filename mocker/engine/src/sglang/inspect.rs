//! Read access for tests and dumps.

use super::Mode;
use super::scheduler::Scheduler;
use super::slot::State;
use crate::request::RequestId;

impl Scheduler {
    /// The waiting queue, head first.
    pub fn queue(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.waiting.iter().copied()
    }

    /// What the last pass was.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Between `schedule` and `complete` of a prefill pass: request, tokens computed before, tokens computed now.
    pub fn prefill_batch(&self) -> impl Iterator<Item = (RequestId, u32, u32)> + '_ {
        self.prefill.iter().map(|&id| (id, self.slots[id].computed, self.slots[id].extend))
    }

    /// The decode batch in its order. After `complete` it still lists those that ended with the pass.
    pub fn decode_requests(&self) -> &[RequestId] {
        &self.running
    }

    /// The request whose prompt is not finished by the last prefill pass.
    pub fn chunked(&self) -> Option<RequestId> {
        self.chunked
    }

    /// The `batch_is_full` flag: nothing is admitted until somebody leaves.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// New-token ratio.
    pub fn new_token_ratio(&self) -> f64 {
        self.ratio.current()
    }

    /// Free tokens.
    pub fn available_tokens(&self) -> u64 {
        self.kv.available()
    }

    /// Cached tokens that no request uses.
    pub fn evictable_tokens(&self) -> u64 {
        self.kv.evictable()
    }

    /// Cached tokens that some request uses.
    pub fn protected_tokens(&self) -> u64 {
        self.kv.protected()
    }

    /// Prompt, output and computed tokens of a request; none if there is no such request.
    pub fn progress(&self, request: RequestId) -> Option<(u32, u32, u32)> {
        let slot = self.slots.get(request)?;
        (slot.state != State::Free).then_some((slot.prompt, slot.outputs, slot.computed))
    }
}
