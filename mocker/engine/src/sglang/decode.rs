//! Decode passes: pages for the next token, and retraction when there are none.

use std::cmp::Reverse;

use super::ratio::RETRACT_TOKENS;
use super::scheduler::Scheduler;
use super::slot::State;
use crate::pass::{KvEvents, Pass};
use crate::request::RequestId;

impl Scheduler {
    /// Forms the decode pass. False if nothing runs.
    pub(super) fn try_decode(&mut self, pass: &mut Pass) -> bool {
        if self.running.is_empty() {
            return false;
        }
        if self.next_token_fits(&mut pass.events) {
            self.ratio.decay(1);
        } else {
            self.retract(pass);
            self.full = false;
            if self.running.is_empty() {
                return false;
            }
        }
        // The allocator wants a page for each request, needed or not.
        let page_size = self.config.page_size;
        self.kv.make_room(self.running.len() as u64 * u64::from(page_size), &mut pass.events);
        for &id in &self.running {
            let slot = &mut self.slots[id];
            let pages = slot.missing(slot.computed + 1, page_size);
            self.kv.pool.take(pages);
            slot.own += pages;
        }
        pass.decode = self.decode_batch();
        if pass.detail.enabled {
            self.running.iter().for_each(|&id| pass.detail.sequences.add(self.slots[id].known()));
        }
        true
    }

    /// Evicts for the pages that the next token of every running request needs; false if that does not suffice.
    fn next_token_fits(&mut self, events: &mut KvEvents) -> bool {
        let page_size = self.config.page_size;
        let pages: u32 =
            self.running.iter().map(|&id| self.slots[id].missing(self.slots[id].computed + 1, page_size)).sum();
        self.kv.make_room(u64::from(pages) * u64::from(page_size), events);
        pages <= self.kv.pool.free()
    }

    /// Throws out the requests with the least output until the rest fits. The batch keeps the order of the choice.
    fn retract(&mut self, pass: &mut Pass) {
        let slots = &self.slots;
        self.running.sort_by_key(|&id| (Reverse(slots[id].outputs), slots[id].prompt));
        let mut first = true;
        while self.running.len() > 1 && (first || !self.next_token_fits(&mut pass.events)) {
            first = false;
            let id = self.running.pop().expect("more than one");
            self.throw_out(id, pass);
            let room = u64::from(RETRACT_TOKENS) * self.running.len() as u64;
            self.kv.make_room(room, &mut pass.events);
        }
        if self.running.len() == 1 && !self.next_token_fits(&mut pass.events) {
            let id = self.running.pop().expect("exactly one");
            self.last_one(id, pass);
        }
        let (mut outputs, mut limits) = (0, 0);
        for &id in &self.running {
            outputs += u64::from(self.slots[id].outputs);
            limits += u64::from(self.slots[id].limit);
        }
        self.ratio.retracted(outputs, limits, self.running.len() as u64);
    }

    fn throw_out(&mut self, id: RequestId, pass: &mut Pass) {
        let slot = &mut self.slots[id];
        self.kv.drop_kv(slot);
        slot.state = State::Waiting;
        slot.retracted = true;
        self.waiting.push_back(id);
        pass.preempted.push(id);
    }

    /// Not even a lone request fits. If others hold memory outside the batch (a chunk, reservations), it waits for
    /// them; otherwise it can never go on and ends with the output it has, as `SGLang` aborts it.
    fn last_one(&mut self, id: RequestId, pass: &mut Pass) {
        let others = self.kv.pool.total() - self.kv.pool.free() - self.kv.tree.evictable();
        if others > self.slots[id].pages() {
            self.throw_out(id, pass);
        } else {
            self.end(id, pass);
        }
    }
}
