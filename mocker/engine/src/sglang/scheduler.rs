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

use super::adder::Adder;
use super::kv::{Kv, Publish};
use super::policy::Order;
use super::ratio::Ratio;
use super::slot::{Slots, State};
use super::tree::ROOT;
use super::{Config, Mode};
use crate::pass::{DecodeBatch, Emission, KvEvents, Pass, Queued};
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

    /// Publishes the last chunk, lets the last prefill batch join, forgets who ended.
    fn settle(&mut self, events: &mut KvEvents) {
        if let Some(id) = self.chunked {
            events.owner = id;
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
        pass.events.owner = id;
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
                pass.events.owner = id;
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

    fn enter(&mut self, request: Request, state: State) -> RequestId {
        let id = self.slots.add();
        let limit = self.config.output_limit(request.prompt_tokens, request.max_output_tokens);
        self.slots[id].start(request, limit, state);
        if state == State::Reserving {
            self.reserving.push_back(id);
        } else {
            self.waiting.push_back(id);
        }
        self.unfinished += 1;
        id
    }

    fn forget(&mut self, id: RequestId) {
        self.waiting.retain(|&other| other != id);
        self.reserving.retain(|&other| other != id);
        self.ready.retain(|&other| other != id);
        self.reserved.retain(|&other| other != id);
        self.running.retain(|&other| other != id);
        self.prefill.retain(|&other| other != id);
        self.chunked = self.chunked.filter(|&other| other != id);
    }
}

impl crate::pass::Scheduler for Scheduler {
    fn submit(&mut self, request: Request) -> RequestId {
        let state = if self.config.role == Role::Decode { State::Reserving } else { State::Waiting };
        self.enter(request, state)
    }

    fn submit_local(&mut self, request: Request) -> RequestId {
        let id = self.enter(request, State::Waiting);
        self.slots[id].local = true;
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
            State::Running | State::Reserved | State::Ready => {
                self.kv.drop_kv(&mut self.slots[request]);
                self.full = false;
            }
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

    fn give_blocks(&mut self, pass: &mut Pass) {
        self.settle(&mut pass.events);
        self.reserve(pass);
    }

    fn schedule(&mut self, pass: &mut Pass) {
        self.slots.recycle();
        self.settle(&mut pass.events);
        if self.config.role == Role::Decode {
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

    fn steady(&self, limit: u32) -> Option<crate::pass::Steady> {
        self.find_steady(limit)
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

    fn reserved_tokens(&self, request: RequestId) -> u32 {
        self.slots[request].matched
    }

    fn queued(&self) -> Queued {
        let mut queued = Queued::default();
        for slot in self.waiting.iter().map(|&id| &self.slots[id]) {
            if slot.retracted {
                queued.sequences.add(slot.known());
            } else {
                queued.prompts.add(slot.prompt);
            }
        }
        for &id in self.reserving.iter().chain(&self.reserved) {
            queued.sequences.add(self.slots[id].known());
        }
        queued
    }
}
