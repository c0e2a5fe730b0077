//! The scheduling loop: what runs in the next pass.
//!
//! ```text
//!   submit ─► waiting ─► prefill batch ─► running ─► finished
//!                ▲           │   ▲           │
//!                │           └───┘ chunk     │
//!                └─────── retracted ─────────┘
//! ```
//!
//! A pass is either prefill or decode, and prefill goes first. The order of the parts of a pass is that of `SGLang`: some
//! of what one pass causes (a chunk becomes findable, the prefill batch joins the running one) happens at the start of
//! the next.

use std::collections::VecDeque;

use super::adder::{Adder, Share, Verdict};
use super::kv::{Kv, Publish};
use super::policy::Order;
use super::ratio::Ratio;
use super::slot::{Slots, State};
use super::tree::ROOT;
use super::{Config, Mode};
use crate::pass::{Admission, DecodeBatch, Emission, KvEvents, Pass};
use crate::request::{Request, RequestId, Role};

/// `SGLang`'s scheduler with its radix cache.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(super) config: Config,
    pub(super) kv: Kv,
    pub(super) ratio: Ratio,
    pub(super) slots: Slots,
    pub(super) order: Order,
    pub(super) adder: Adder,
    pub(super) waiting: VecDeque<RequestId>,
    /// The decode batch, in batch order.
    pub(super) running: Vec<RequestId>,
    /// The prefill batch of the last pass, until it joins `running`.
    pub(super) prefill: Vec<RequestId>,
    /// The request whose prompt is not finished.
    pub(super) chunked: Option<RequestId>,
    /// Nothing is admitted until somebody leaves.
    pub(super) full: bool,
    pub(super) mode: Mode,
    /// Ended in the last pass: their slots are free in the next.
    pub(super) ended: Vec<RequestId>,
    pub(super) reserving: VecDeque<RequestId>,
    pub(super) ready: VecDeque<RequestId>,
    /// Decode role: requests with pages that have not joined the batch.
    pub(super) reserved: Vec<RequestId>,
    /// Prefill role: ended requests whose pages are held.
    pub(super) held: usize,
    pub(super) unfinished: usize,
}

impl Scheduler {
    /// An idle scheduler with an empty cache.
    pub fn new(config: Config) -> Self {
        let ratio = Ratio::new(config.schedule_conservativeness);
        let adder = Adder::new(
            config.page_size,
            config.clip_max_new_tokens,
            &ratio,
            config.max_prefill_tokens,
            config.chunked_prefill_size,
        );
        Self {
            kv: Kv::new(config.capacity_tokens, config.page_size, config.radix_cache),
            ratio,
            adder,
            slots: Slots::default(),
            order: Order::default(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            prefill: Vec::new(),
            chunked: None,
            full: false,
            mode: Mode::Idle,
            ended: Vec::new(),
            reserving: VecDeque::new(),
            ready: VecDeque::new(),
            reserved: Vec::new(),
            held: 0,
            unfinished: 0,
            config,
        }
    }

    /// Output tokens after which a request ends here.
    pub(super) fn output_limit(&self, prompt_tokens: u32, max_output_tokens: u32) -> u32 {
        let limit = match self.config.role {
            Role::Prefill => 1,
            Role::Aggregated | Role::Decode => max_output_tokens,
        };
        let room = self.config.max_model_len.map_or(u32::MAX, |len| len.saturating_sub(prompt_tokens));
        limit.min(room).max(1)
    }

    /// Publishes the last chunk, lets the last prefill batch join, forgets who ended.
    fn settle(&mut self, events: &mut KvEvents) {
        if let Some(id) = self.chunked {
            self.kv.publish(&mut self.slots[id], Publish::Chunk, events);
        }
        if self.mode == Mode::Prefill {
            // The old running batch, if empty, is replaced by the new one with a flag of its own.
            let mut changed = self.running.is_empty();
            for i in 0..self.prefill.len() {
                let id = self.prefill[i];
                if self.slots[id].state == State::Running && self.chunked != Some(id) {
                    self.running.push(id);
                } else {
                    changed = true;
                }
            }
            self.full &= !changed;
        }
        self.prefill.clear();
        let before = self.running.len();
        let slots = &self.slots;
        self.running.retain(|&id| slots[id].state == State::Running);
        if self.running.len() < before || self.running.is_empty() {
            self.full = false;
        }
        for id in self.ended.drain(..) {
            self.slots.free(id);
        }
    }

    /// Size of the largest prefill batch, a pending chunk included: rows of the request table that are left.
    fn places(&self) -> usize {
        let Some(max) = self.config.max_running_requests else { return usize::MAX };
        let rows = self.running.len() + self.held + self.reserved.len();
        (max as usize).saturating_sub(rows)
    }

    /// Tries to form a prefill batch.
    fn try_prefill(&mut self, pass: &mut Pass) -> bool {
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
            pass.prefill.requests += 1;
            pass.prefill.prefix_tokens += u64::from(slot.computed);
            pass.prefill.new_tokens += u64::from(slot.extend);
            if i >= first_new {
                slot.state = State::Running;
                pass.admitted.push(Admission { request: id, cached_tokens: slot.computed, resumed: slot.retracted });
            }
        }
        self.waiting.drain(..admitted);
    }

    /// Appends one token; true if the request ended with it.
    fn emit(&mut self, id: RequestId, pass: &mut Pass) -> bool {
        let slot = &mut self.slots[id];
        slot.outputs += 1;
        pass.emitted.push(Emission { request: id, tokens: 1 });
        slot.outputs >= slot.limit
    }

    /// A request ends: its KV is published, then freed, or held in the prefill role.
    pub(super) fn end(&mut self, id: RequestId, pass: &mut Pass) {
        let slot = &mut self.slots[id];
        if self.config.role == Role::Prefill {
            self.kv.publish(slot, Publish::Prompt, &mut pass.events);
            slot.state = State::Held;
            self.held += 1;
        } else {
            self.kv.retire(slot, &mut pass.events);
            slot.state = State::Finished;
            self.ended.push(id);
        }
        self.unfinished -= 1;
        pass.finished.push(id);
    }

    fn complete_prefill(&mut self, pass: &mut Pass) {
        for i in 0..self.prefill.len() {
            let id = self.prefill[i];
            let slot = &mut self.slots[id];
            slot.computed += slot.extend;
            slot.extend = 0;
            if self.chunked == Some(id) {
                continue;
            }
            if self.emit(id, pass) {
                self.end(id, pass);
            } else {
                self.kv.publish(&mut self.slots[id], Publish::Prompt, &mut pass.events);
            }
        }
    }

    fn complete_decode(&mut self, pass: &mut Pass) {
        for i in 0..self.running.len() {
            let id = self.running[i];
            self.slots[id].computed += 1;
            if self.emit(id, pass) {
                self.end(id, pass);
            }
        }
    }

    /// The decode batch as the timing model sees it.
    pub(super) fn decode_batch(&self) -> DecodeBatch {
        DecodeBatch {
            requests: self.running.len() as u32,
            kv_tokens: self.running.iter().map(|&id| u64::from(self.slots[id].known())).sum(),
        }
    }

    fn forget(&mut self, id: RequestId) {
        self.waiting.retain(|&other| other != id);
        self.reserving.retain(|&other| other != id);
        self.ready.retain(|&other| other != id);
        self.reserved.retain(|&other| other != id);
        let before = self.running.len() + self.prefill.len();
        self.running.retain(|&other| other != id);
        self.prefill.retain(|&other| other != id);
        if self.chunked == Some(id) {
            self.chunked = None;
            self.full = false;
        }
        if self.running.len() + self.prefill.len() < before {
            self.full = false;
        }
    }
}

impl crate::pass::Scheduler for Scheduler {
    fn submit(&mut self, request: Request) -> RequestId {
        let id = self.slots.add();
        let limit = self.output_limit(request.prompt_tokens, request.max_output_tokens);
        if self.config.role == Role::Decode {
            self.slots[id].start(request, limit, State::Reserving);
            self.reserving.push_back(id);
        } else {
            self.slots[id].start(request, limit, State::Waiting);
            self.waiting.push_back(id);
        }
        self.unfinished += 1;
        id
    }

    fn abort(&mut self, request: RequestId) -> bool {
        let state = self.slots.get(request).map_or(State::Free, |slot| slot.state);
        match state {
            State::Free | State::Finished => return false,
            State::Held => {
                self.release(request);
                return true;
            }
            State::Waiting | State::Reserving => {}
            State::Running | State::Reserved | State::Ready => self.kv.drop_kv(&mut self.slots[request]),
        }
        self.forget(request);
        self.slots.free(request);
        self.unfinished -= 1;
        true
    }

    fn activate(&mut self, request: RequestId) {
        let slot = &mut self.slots[request];
        if slot.state == State::Reserved {
            slot.state = State::Ready;
            self.ready.push_back(request);
        }
    }

    fn release(&mut self, request: RequestId) {
        if self.slots.get(request).is_some_and(|slot| slot.state == State::Held) {
            self.kv.drop_kv(&mut self.slots[request]);
            self.held -= 1;
            self.slots.free(request);
            // A held row was counted as one of the running places.
            self.full = false;
        }
    }

    fn reset_prefix_cache(&mut self, events: &mut KvEvents) -> bool {
        if self.active_blocks() > 0 {
            return false;
        }
        for &id in &self.waiting {
            self.slots[id].node = ROOT;
        }
        self.kv.pool.give(self.kv.tree.evictable());
        self.kv.tree.reset(events);
        true
    }

    fn schedule(&mut self, pass: &mut Pass) {
        self.settle(&mut pass.events);
        if self.config.role == Role::Decode {
            self.reserve(pass);
            self.join(pass);
        }
        self.mode = if self.try_prefill(pass) {
            Mode::Prefill
        } else if self.try_decode(pass) {
            Mode::Decode
        } else {
            self.ratio.reset();
            Mode::Idle
        };
    }

    fn complete(&mut self, pass: &mut Pass) {
        match self.mode {
            Mode::Idle => {}
            Mode::Prefill => self.complete_prefill(pass),
            Mode::Decode => self.complete_decode(pass),
        }
    }

    fn steady(&self) -> Option<crate::pass::Steady> {
        self.find_steady()
    }

    fn advance(&mut self, passes: u32, pass: &mut Pass) {
        self.run_steady(passes, pass);
    }

    fn unfinished(&self) -> usize {
        self.unfinished
    }

    fn waiting(&self) -> usize {
        self.waiting.len() + self.reserving.len() + self.reserved.len()
    }

    fn active_blocks(&self) -> u32 {
        self.kv.pool.total() - self.kv.pool.free() - self.kv.tree.evictable()
    }
}
