//! Forming a prefill batch: the pending chunk, then the queue from its head, then pages for all of them.

use super::adder::{Share, Verdict};
use super::scheduler::Scheduler;
use super::slot::State;
use crate::pass::{Admission, Pass};
use crate::request::RequestId;

impl Scheduler {
    /// Size of the largest prefill batch, a pending chunk included: rows of the request table that are left.
    fn places(&self) -> usize {
        let Some(max) = self.config.max_running_requests else { return usize::MAX };
        let rows = self.running.len() + self.held + self.reserved.len();
        (max as usize).saturating_sub(rows)
    }

    /// Tries to form a prefill batch.
    pub(super) fn try_prefill(&mut self, pass: &mut Pass) -> bool {
        if (self.full || self.waiting.is_empty()) && self.chunked.is_none() {
            return false;
        }
        let places = self.places();
        if places == 0 && self.chunked.is_none() {
            self.full = true;
            return false;
        }
        self.order.arrange(self.config.policy, &mut self.waiting, &mut self.slots, &mut self.kv);
        self.adder.reset(&self.ratio, self.config.max_prefill_tokens, self.config.chunked_prefill_size);
        for &id in self.running.iter().chain(&self.reserved) {
            self.adder.reserve_running(&self.slots[id]);
        }
        let chunk_before = self.chunked;
        if let Some(id) = self.chunked {
            let share = self.adder.continue_chunk(&self.kv, &self.slots[id]);
            self.take_in(id, share);
            self.chunked = share.cut.then_some(id);
        }
        let admitted = self.admit_waiting(places);
        self.allocate(admitted, chunk_before, pass)
    }

    /// Admits from the head of the queue until one is refused; returns how many.
    fn admit_waiting(&mut self, places: usize) -> usize {
        let mut admitted = 0;
        while let Some(&id) = self.waiting.get(admitted) {
            if self.prefill.len() >= places {
                self.full = true;
            }
            if self.full {
                break;
            }
            let verdict = match self.admit(id) {
                Ok(share) => {
                    self.take_in(id, share);
                    if share.cut {
                        self.chunked = Some(id);
                    }
                    admitted += 1;
                    self.adder.state(&self.kv)
                }
                Err(verdict) => verdict,
            };
            match verdict {
                Verdict::Continue => {}
                Verdict::NoToken => {
                    self.full = !self.running.is_empty() || !self.prefill.is_empty();
                    break;
                }
                Verdict::Other => break,
            }
        }
        admitted
    }

    fn take_in(&mut self, id: RequestId, share: Share) {
        self.slots[id].extend = share.extend;
        self.prefill.push(id);
    }

    /// Finds and locks the candidate's prefix and tests the rest; a refused one is left as it was.
    fn admit(&mut self, id: RequestId) -> Result<Share, Verdict> {
        let slot = &mut self.slots[id];
        let known = slot.known();
        let hit = self.kv.lookup(slot, known - 1);
        slot.computed = hit * self.config.page_size;
        slot.shared = hit;
        if slot.ignore_eos && !self.kv.radix {
            return self.adder.test_ignore_eos(&self.kv, &self.slots, id, &self.running, &self.prefill);
        }
        self.kv.tree.lock(slot.node);
        let result = self.adder.test(&self.kv, &self.slots[id], self.prefill.len(), self.chunked.is_some());
        if result.is_err() {
            self.kv.drop_kv(&mut self.slots[id]);
        }
        result
    }

    /// Gets the pages of the batch: evicts ahead, then takes. False if no batch remains.
    fn allocate(&mut self, mut admitted: usize, chunk_before: Option<RequestId>, pass: &mut Pass) -> bool {
        let page_size = self.config.page_size;
        let spare = if page_size == 1 { 0 } else { u64::from(page_size) };
        while !self.prefill.is_empty() {
            let mut tokens = 0;
            let mut pages = 0;
            for &id in &self.prefill {
                let slot = &self.slots[id];
                tokens += u64::from(slot.extend) + spare;
                pages += slot.missing(slot.computed + slot.extend, page_size);
            }
            self.kv.make_room(tokens, &mut pass.events);
            if pages <= self.kv.pool.free() {
                break;
            }
            self.give_up_last(&mut admitted, chunk_before);
        }
        if self.prefill.is_empty() {
            return false;
        }
        self.fill_prefill(admitted, pass);
        true
    }

    /// The budgets let in more than memory holds (possible when a chunk goes on with its total exhausted): undoes the
    /// last admission.
    fn give_up_last(&mut self, admitted: &mut usize, chunk_before: Option<RequestId>) {
        let id = self.prefill.pop().expect("the batch is not empty");
        self.slots[id].extend = 0;
        if *admitted > 0 {
            *admitted -= 1;
            self.kv.drop_kv(&mut self.slots[id]);
            if self.chunked == Some(id) {
                self.chunked = chunk_before.filter(|&before| self.slots[before].extend > 0 && before != id);
            }
        } else {
            self.chunked = Some(id);
            if self.running.is_empty() {
                // Nobody else can make room for it: it starts again from the queue.
                self.chunked = None;
                self.kv.drop_kv(&mut self.slots[id]);
                self.slots[id].state = State::Waiting;
                self.slots[id].retracted = true;
                self.waiting.push_front(id);
            }
        }
    }

    fn fill_prefill(&mut self, admitted: usize, pass: &mut Pass) {
        let page_size = self.config.page_size;
        let first_new = self.prefill.len() - admitted;
        for (i, &id) in self.prefill.iter().enumerate() {
            let slot = &mut self.slots[id];
            let pages = slot.missing(slot.computed + slot.extend, page_size);
            self.kv.pool.take(pages);
            slot.own += pages;
            pass.prefill.add(slot.computed, slot.extend);
            if slot.local {
                pass.local_prefill.add(slot.computed, slot.extend);
            }
            if pass.detail.enabled {
                pass.detail.prompts.add(slot.prompt);
            }
            if i >= first_new {
                slot.state = State::Running;
                pass.admitted.push(Admission { request: id, cached_tokens: slot.computed, resumed: slot.retracted });
            }
        }
        self.waiting.drain(..admitted);
    }
}
