//! Disaggregated serving: a prefill engine holds finished KV, a decode engine reserves blocks for it.

use super::scheduler::{Entry, Kind, Plan, Scheduler};
use super::sequence::State;
use crate::pass::{Admission, Pass};
use crate::request::RequestId;

impl Scheduler {
    /// Decode role: gives waiting requests the blocks of their prompts, in order, while there are enough.
    pub(super) fn reserve(&mut self, pass: &mut Pass) {
        while let Some(&id) = self.reserving.front() {
            let prompt = self.arena[id].request.prompt_tokens;
            let hit = self.prefix_hit(id, prompt);
            // Room for drafts included: once its KV is here, nothing is wanting for the first pass.
            let needed = self.blocks_for(prompt + self.lookahead()) - hit.blocks + hit.inactive;
            if needed > self.pool.free() || !self.may_promise(id) {
                return;
            }
            self.reserving.pop_front();
            self.promise(id);
            let sequence = &mut self.arena[id];
            self.pool.take_hits(&mut sequence.blocks);
            sequence.stored = hit.blocks;
            sequence.computed = 0;
            sequence.state = State::Reserved;
            let grown = self.grow(id, prompt, &mut pass.events);
            assert!(grown, "the free blocks were counted");
            pass.reserved.push(id);
        }
    }

    /// Decode role: tokens of the prompt whose blocks were found here when they were reserved.
    pub fn reserved_hit_tokens(&self, request: RequestId) -> u32 {
        self.arena[request].stored * self.config.block_size
    }

    pub(super) fn activate_reserved(&mut self, id: RequestId) {
        if self.arena.get(id).is_some_and(|sequence| sequence.state == State::Reserved) {
            self.arena[id].state = State::Activated;
            self.activated.push_back(id);
        }
    }

    /// Requests whose KV has arrived join the running ones as if they had computed all but the last prompt token. The
    /// reservation has all blocks that this needs.
    pub(super) fn enter_activated(&mut self, plan: &mut Plan, pass: &mut Pass) {
        while plan.budget > 0 && self.has_seat() {
            let Some(&id) = self.activated.front() else { return };
            self.activated.pop_front();
            let cached_tokens = self.reserved_hit_tokens(id);
            let sequence = &mut self.arena[id];
            sequence.state = State::Running;
            sequence.computed = sequence.request.prompt_tokens - 1;
            sequence.decoding = true;
            self.running.push(id);
            let held = self.arena[id].blocks.len() as u32;
            self.take(id, Entry { kind: Kind::New, tokens: 1, blocks_before: held }, plan, pass);
            pass.admitted.push(Admission { request: id, cached_tokens, resumed: false });
        }
    }

    pub(super) fn release_held(&mut self, id: RequestId) {
        if self.arena.get(id).is_some_and(|sequence| sequence.state == State::Held) {
            self.unpromise(id);
            self.pool.release(&mut self.arena[id].blocks);
            self.arena.leave(id);
            self.head_refused = false;
        }
    }
}
