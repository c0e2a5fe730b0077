//! What a scheduler knows of one request.

use super::tree::{NodeId, ROOT};
use crate::hash::BlockHashes;
use crate::request::{Request, RequestId};

/// Where a request is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The slot is unused.
    #[default]
    Free,
    /// Decode role: waits for pages.
    Reserving,
    /// Decode role: has its pages, waits for [`crate::pass::Scheduler::activate`].
    Reserved,
    /// Decode role: its KV is there, it waits for a place in the batch.
    Ready,
    /// In the waiting queue.
    Waiting,
    /// Admitted: in a prefill batch, between two chunks, or decoding.
    Running,
    /// Ended; the slot is free at the next pass.
    Finished,
    /// Prefill role: ended, its pages are held until released.
    Held,
}

/// A request's progress and KV.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub(super) state: State,
    pub(super) hashes: BlockHashes,
    /// Tokens of the prompt.
    pub(super) prompt: u32,
    /// Output tokens after which it ends.
    pub(super) limit: u32,
    pub(super) ignore_eos: bool,
    /// Output tokens made.
    pub(super) outputs: u32,
    /// Tokens whose KV exists.
    pub(super) computed: u32,
    /// Tokens that the prefill pass in flight computes.
    pub(super) extend: u32,
    /// Pages on its locked path in the tree.
    pub(super) shared: u32,
    /// Pages it holds outside the tree.
    pub(super) own: u32,
    /// End of its locked path.
    pub(super) node: NodeId,
    /// Its prompt is computed here whatever the role.
    pub(super) local: bool,
    /// It was thrown out of the batch before.
    pub(super) retracted: bool,
    /// Cached tokens found when the queue was ordered.
    pub(super) matched: u32,
}

impl Slot {
    pub(super) fn start(&mut self, request: Request, limit: u32, state: State) {
        *self = Self {
            state,
            hashes: request.hashes,
            prompt: request.prompt_tokens,
            limit,
            ignore_eos: request.ignore_eos,
            node: ROOT,
            ..Self::default()
        };
    }

    /// Prompt and output tokens so far.
    pub(super) fn known(&self) -> u32 {
        self.prompt + self.outputs
    }

    /// Output tokens still to come.
    pub(super) fn remaining(&self) -> u32 {
        self.limit.saturating_sub(self.outputs)
    }

    /// Pages it holds in all.
    pub(super) fn pages(&self) -> u32 {
        self.shared + self.own
    }

    /// Pages missing for KV of `tokens` tokens.
    pub(super) fn missing(&self, tokens: u32, page_size: u32) -> u32 {
        tokens.div_ceil(page_size).saturating_sub(self.pages())
    }
}

/// The arena of requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    all: Vec<Slot>,
    unused: Vec<RequestId>,
    /// Freed since the last pass was decided: their numbers may still stand in its outcome.
    leaving: Vec<RequestId>,
}

impl Slots {
    pub(super) fn add(&mut self) -> RequestId {
        self.unused.pop().unwrap_or_else(|| {
            self.all.push(Slot::default());
            RequestId(self.all.len() as u32 - 1)
        })
    }

    pub(super) fn free(&mut self, id: RequestId) {
        debug_assert_ne!(self[id].state, State::Free, "a slot is freed once");
        self[id].state = State::Free;
        self.leaving.push(id);
    }

    /// The numbers freed so far may be given out again.
    pub(super) fn recycle(&mut self) {
        self.unused.append(&mut self.leaving);
    }

    pub(super) fn get(&self, id: RequestId) -> Option<&Slot> {
        self.all.get(id.index())
    }
}

impl std::ops::Index<RequestId> for Slots {
    type Output = Slot;
    #[inline]
    fn index(&self, id: RequestId) -> &Slot {
        &self.all[id.index()]
    }
}

impl std::ops::IndexMut<RequestId> for Slots {
    #[inline]
    fn index_mut(&mut self, id: RequestId) -> &mut Slot {
        &mut self.all[id.index()]
    }
}
