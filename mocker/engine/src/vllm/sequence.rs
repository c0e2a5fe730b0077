//! Requests inside the scheduler, in an arena of slots.

use crate::kv::BlockId;
use crate::request::{Request, RequestId};

/// Where a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The slot is empty.
    #[default]
    Vacant,
    /// In the waiting queue.
    Waiting,
    /// In the running list.
    Running,
    /// Ended; the slot stays until the next pass is scheduled.
    Finished,
    /// Prefill role: ended, blocks held for the transfer.
    Held,
    /// Decode role: blocks wanted for the prompt.
    Reserving,
    /// Decode role: blocks reserved, KV not there yet.
    Reserved,
    /// Decode role: KV is there, waiting for a place among the running.
    Activated,
}

/// One request.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    pub(super) request: Request,
    pub(super) state: State,
    /// Differs between requests that used the same slot.
    pub(super) generation: u32,
    /// Order of submission.
    pub(super) arrival: u64,
    /// Known tokens (prompt and output) at which it ends.
    pub(super) end: u32,
    /// Output tokens known.
    pub(super) outputs: u32,
    /// Tokens whose KV is computed, or will be by the passes scheduled so far.
    pub(super) computed: u32,
    /// Async scheduling: output tokens scheduled but not known yet.
    pub(super) in_flight: u32,
    /// All known tokens are scheduled: what follows is decode.
    pub(super) decoding: bool,
    /// Its prompt is computed here whatever the role.
    pub(super) local: bool,
    /// It ran before and was preempted.
    pub(super) resumed: bool,
    /// Leading blocks that are in the prefix cache.
    pub(super) stored: u32,
    /// Blocks in the order of their tokens.
    pub(super) blocks: Vec<BlockId>,
}

impl Sequence {
    /// Tokens that exist or are being made.
    pub(super) fn tokens(&self) -> u32 {
        self.known() + self.in_flight
    }

    /// Prompt and output tokens that exist.
    pub(super) fn known(&self) -> u32 {
        self.request.prompt_tokens + self.outputs
    }

    /// Order under priority scheduling.
    pub(super) fn rank(&self) -> (i32, u64) {
        (self.request.priority, self.arrival)
    }
}

/// All slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Arena {
    slots: Vec<Sequence>,
    /// Block lists of requests that have left, so that a steady state allocates nothing: as many as requests were there
    /// at the same time, whatever slots they had.
    spare: Vec<Vec<BlockId>>,
    vacant: Vec<RequestId>,
    /// Ended since the last pass was scheduled.
    leaving: Vec<RequestId>,
    arrivals: u64,
}

impl Arena {
    pub(super) fn insert(&mut self, request: Request, end: u32) -> RequestId {
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Sequence::default());
            RequestId(self.slots.len() as u32 - 1)
        });
        let blocks = self.spare.pop().unwrap_or_default();
        let slot = &mut self.slots[id.index()];
        let generation = slot.generation.wrapping_add(1);
        *slot = Sequence { request, end, blocks, generation, arrival: self.arrivals, ..Sequence::default() };
        self.arrivals += 1;
        id
    }

    /// The request, which holds no blocks any more, has ended. The slot may be used again after the next
    /// [`Arena::recycle`].
    pub(super) fn leave(&mut self, id: RequestId) {
        let slot = &mut self.slots[id.index()];
        debug_assert!(slot.blocks.is_empty());
        slot.state = State::Finished;
        self.spare.push(std::mem::take(&mut slot.blocks));
        self.leaving.push(id);
    }

    pub(super) fn recycle(&mut self) {
        for id in self.leaving.drain(..) {
            self.slots[id.index()].state = State::Vacant;
            self.vacant.push(id);
        }
    }

    pub(super) fn get(&self, id: RequestId) -> Option<&Sequence> {
        self.slots.get(id.index())
    }
}

impl std::ops::Index<RequestId> for Arena {
    type Output = Sequence;
    fn index(&self, id: RequestId) -> &Sequence {
        &self.slots[id.index()]
    }
}

impl std::ops::IndexMut<RequestId> for Arena {
    fn index_mut(&mut self, id: RequestId) -> &mut Sequence {
        &mut self.slots[id.index()]
    }
}
