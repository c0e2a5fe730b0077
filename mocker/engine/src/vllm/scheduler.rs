//! The scheduler's state, and the first half of a pass: the running requests.

use std::collections::VecDeque;

use super::queue::Queue;
use super::sequence::{Arena, State};
use super::steady::BlockEvent;
use super::{Capacity, Config, Policy, Preemption};
use crate::kv::{BlockId, BlockPool};
use crate::pass::{self, Detail, KvEvents, Pass, Queued, Steady};
use crate::request::{Request, RequestId, Role};

/// How a request came into a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// First admission.
    New,
    /// Admitted again after a preemption.
    Resumed,
    /// It was running before.
    Running,
}

/// One request of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Who.
    pub request: RequestId,
    /// How it came in.
    pub kind: Kind,
    /// Tokens computed in the pass.
    pub tokens: u32,
    /// Tokens computed before it.
    pub computed_before: u32,
    /// Blocks held before it (0 for admissions: the prefix-cache hits count as new).
    pub blocks_before: u32,
    /// Its newest token is computed, so the pass gives it another one.
    pub(super) samples: bool,
    /// It computes its newest token only, after its prefill.
    pub(super) decode: bool,
    pub(super) generation: u32,
}

/// Scheduler of one rank.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(super) config: Config,
    pub(super) pool: BlockPool,
    pub(super) arena: Arena,
    pub(super) waiting: Queue,
    pub(super) running: Vec<RequestId>,
    /// Decode role: waiting for blocks, in order.
    pub(super) reserving: VecDeque<RequestId>,
    /// Decode role: waiting for a place among the running, in order.
    pub(super) activated: VecDeque<RequestId>,
    /// Passes whose output is not processed yet, oldest first: at most one, or two with async scheduling.
    pub(super) passes: VecDeque<Vec<Scheduled>>,
    /// Buffers for further passes.
    spare: Vec<Vec<Scheduled>>,
    /// Buffer of a run.
    pub(super) block_events: Vec<BlockEvent>,
    pub(super) unfinished: usize,
    /// Guaranteed-no-evict: blocks that the requests with blocks may need at most.
    pub(super) promised_blocks: u32,
    /// Passes since the last one that carried prefill.
    passes_since_prefill: u32,
    /// The last admission that was not held left nobody waiting.
    pub(super) queue_drained: bool,
    /// The queue's head was refused for want of blocks, and nothing has changed since that could let it in.
    pub(super) head_refused: bool,
}

impl Scheduler {
    /// An empty scheduler.
    pub fn new(config: Config) -> Self {
        Self {
            pool: BlockPool::new(config.num_gpu_blocks, config.eviction),
            arena: Arena::default(),
            waiting: Queue::new(config.policy),
            running: Vec::new(),
            reserving: VecDeque::new(),
            activated: VecDeque::new(),
            passes: VecDeque::new(),
            spare: Vec::new(),
            block_events: Vec::new(),
            unfinished: 0,
            promised_blocks: 0,
            passes_since_prefill: u32::MAX,
            queue_drained: true,
            head_refused: false,
            config,
        }
    }

    /// The KV cache.
    pub fn pool(&self) -> &BlockPool {
        &self.pool
    }

    /// The requests of the pass scheduled last, in scheduling order.
    pub fn scheduled(&self) -> &[Scheduled] {
        self.passes.back().map_or(&[], Vec::as_slice)
    }

    /// The blocks of a request, in the order of its tokens.
    pub fn blocks_of(&self, request: RequestId) -> &[BlockId] {
        &self.arena[request].blocks
    }

    /// Number of running requests.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Drops the prefix cache after preempting all running requests, last first, so that it always succeeds unless
    /// blocks are held outside the running list. Lists who was preempted in `preempted`.
    pub fn reset_running_and_cache(&mut self, preempted: &mut Vec<RequestId>, events: &mut KvEvents) -> bool {
        while let Some(id) = self.running.pop() {
            self.send_back(id);
            preempted.push(id);
        }
        self.pool.reset(events)
    }

    /// Blocks for `tokens` tokens.
    pub(super) fn blocks_for(&self, tokens: u32) -> u32 {
        self.config.blocks_for(tokens)
    }

    /// A running request that was already taken off the list: frees its blocks and puts it back into the queue.
    pub(super) fn send_back(&mut self, id: RequestId) {
        self.unpromise(id);
        let sequence = &mut self.arena[id];
        self.pool.release(&mut sequence.blocks);
        sequence.state = State::Waiting;
        sequence.computed = 0;
        sequence.stored = 0;
        sequence.decoding = false;
        sequence.resumed = true;
        self.waiting.push_again(id, &self.arena);
        self.head_refused = false;
    }

    /// Guaranteed-no-evict: the pool has room for all tokens of this request beside those of the ones promised before.
    pub(super) fn may_promise(&self, id: RequestId) -> bool {
        self.promised_blocks + self.promised_to(id) <= self.pool.usable()
    }

    /// A request may count on blocks for all its tokens, from its admission or reservation until its blocks are free.
    pub(super) fn promise(&mut self, id: RequestId) {
        self.promised_blocks += self.promised_to(id);
    }

    pub(super) fn unpromise(&mut self, id: RequestId) {
        self.promised_blocks -= self.promised_to(id);
    }

    fn promised_to(&self, id: RequestId) -> u32 {
        match self.config.capacity {
            Capacity::AsNeeded => 0,
            Capacity::GuaranteedNoEvict => self.blocks_for(self.arena[id].end),
        }
    }

    /// Tokens beyond the scheduled ones that need blocks too: drafts.
    pub(super) fn lookahead(&self) -> u32 {
        self.config.lookahead()
    }

    /// Gives a request blocks for `tokens` more tokens; all or nothing.
    pub(super) fn grow(&mut self, id: RequestId, tokens: u32, events: &mut KvEvents) -> bool {
        let wanted = self.blocks_for(self.arena[id].computed + tokens + self.lookahead());
        let sequence = &mut self.arena[id];
        let missing = wanted.saturating_sub(sequence.blocks.len() as u32);
        if missing > self.pool.free() {
            return false;
        }
        if missing > 0 {
            self.pool.allocate(missing, &mut sequence.blocks, events);
        }
        true
    }

    /// Puts the blocks that the first `tokens` tokens fill into the prefix cache.
    pub(super) fn store_full(&mut self, id: RequestId, tokens: u32, events: &mut KvEvents) {
        let sequence = &mut self.arena[id];
        let full = tokens / self.config.block_size;
        let from = sequence.stored;
        if !self.config.enable_prefix_caching || full <= from {
            return;
        }
        let hashes = &sequence.request.hashes;
        for index in from..full {
            self.pool.store(sequence.blocks[index as usize], hashes.get(index as usize));
        }
        let parent = from.checked_sub(1).map(|before| hashes.get(before as usize));
        events.owner = id;
        events.stored(parent, from, (from..full).map(|index| hashes.get(index as usize)));
        sequence.stored = full;
        self.head_refused = false;
    }

    /// Prompt chunks must wait in this pass, so that decodes run undisturbed.
    fn prefill_held(&self) -> bool {
        let interval = self.config.prefill_schedule_interval;
        interval > 1
            && self.passes_since_prefill < interval - 1
            && self.queue_drained
            && self.running.iter().any(|&id| self.arena[id].decoding)
    }

    /// Most tokens of a request's prompt in one pass.
    fn chunk_limit(&self) -> u32 {
        let threshold = self.config.long_prefill_token_threshold;
        let alone = self.running.len() + self.waiting.len() <= 1;
        if threshold == 0 || alone { u32::MAX } else { threshold }
    }

    /// Tokens that a running request can compute now: 0 if it has to pass.
    fn wanted(&self, id: RequestId, plan: &Plan) -> u32 {
        let sequence = &self.arena[id];
        if sequence.in_flight > 0 && sequence.tokens() >= sequence.end {
            return 0;
        }
        let mut wanted = (sequence.tokens() - sequence.computed).min(plan.chunk_limit).min(plan.budget);
        if let Some(limit) = self.config.max_model_len {
            wanted = wanted.min(limit.saturating_sub(1 + sequence.computed));
        }
        if plan.prefill_held && !sequence.decoding { 0 } else { wanted }
    }

    fn schedule_running(&mut self, plan: &mut Plan, pass: &mut Pass) {
        let mut index = 0;
        while index < self.running.len() && plan.budget > 0 {
            let id = self.running[index];
            let wanted = self.wanted(id, plan);
            if wanted == 0 {
                index += 1;
                continue;
            }
            let held = self.arena[id].blocks.len() as u32;
            while !self.grow(id, wanted, &mut pass.events) {
                let position = self.victim(plan);
                let victim = self.running.remove(position);
                // A token that is taken back is not under way.
                if plan.cancel(victim).is_some_and(|entry| entry.samples) && self.config.async_scheduling {
                    self.arena[victim].in_flight -= 1;
                }
                self.send_back(victim);
                pass.preempted.push(victim);
                if position < index {
                    index -= 1;
                }
                if victim == id {
                    break;
                }
            }
            if self.arena[id].state == State::Running {
                self.take(id, Entry { kind: Kind::Running, tokens: wanted, blocks_before: held }, plan, pass);
                index += 1;
            } else if self.config.policy == Policy::Fcfs && self.config.preemption == Preemption::Lifo {
                break;
            }
        }
    }

    /// Position of the running request to preempt next.
    fn victim(&self, plan: &Plan) -> usize {
        let last = self.running.len() - 1;
        match (self.config.policy, self.config.preemption) {
            (Policy::Fcfs, Preemption::Lifo) => last,
            // Were prompts in the making its victims too, two of them could undo each other for ever.
            (Policy::Fcfs, Preemption::Fifo) => {
                let decodes = |&id: &RequestId| match plan.scheduled.iter().find(|entry| entry.request == id) {
                    Some(entry) => entry.decode,
                    None => self.arena[id].decoding,
                };
                self.running.iter().position(decodes).unwrap_or(last)
            }
            (Policy::Priority, _) => (0..=last).max_by_key(|&at| self.arena[self.running[at]].rank()).unwrap_or(last),
        }
    }

    /// A request that has its blocks computes tokens in this pass.
    pub(super) fn take(&mut self, id: RequestId, entry: Entry, plan: &mut Plan, pass: &mut Pass) {
        let Entry { kind, tokens, blocks_before } = entry;
        let sequence = &mut self.arena[id];
        let before = sequence.computed;
        let decode = sequence.decoding;
        sequence.computed += tokens;
        let samples = sequence.computed >= sequence.tokens();
        sequence.decoding = samples;
        plan.scheduled.push(Scheduled {
            request: id,
            kind,
            tokens,
            computed_before: before,
            blocks_before,
            samples,
            decode,
            generation: sequence.generation,
        });
        plan.budget -= tokens;
        let filled = sequence.computed.min(sequence.known());
        if samples && self.config.async_scheduling {
            sequence.in_flight += 1;
        }
        self.store_full(id, filled, &mut pass.events);
    }

    /// Adds up the pass for the timing model and keeps it until its output is processed.
    fn seal(&mut self, plan: Plan, pass: &mut Pass) {
        let mut carries_prefill = false;
        if pass.detail.enabled {
            self.sum_up(&plan, &mut pass.detail);
        }
        for entry in &plan.scheduled {
            // One token alone, such as that of a fully cached prompt, is no heavier than a decode.
            carries_prefill |= entry.tokens > 1 || !entry.samples;
            if entry.decode {
                pass.decode.requests += 1;
                pass.decode.kv_tokens += u64::from(entry.computed_before + 1);
            } else {
                pass.prefill.add(entry.computed_before, entry.tokens);
                if self.arena[entry.request].local {
                    pass.local_prefill.add(entry.computed_before, entry.tokens);
                }
            }
        }
        if carries_prefill {
            self.passes_since_prefill = 0;
        } else if !plan.scheduled.is_empty() {
            self.count_decode_passes(1);
        }
        self.passes.push_back(plan.scheduled);
    }

    fn sum_up(&self, plan: &Plan, detail: &mut Detail) {
        for entry in &plan.scheduled {
            if entry.decode {
                detail.sequences.add(entry.computed_before + 1);
            } else {
                detail.prompts.add(self.arena[entry.request].request.prompt_tokens);
            }
        }
    }

    fn take_in(&mut self, request: Request, state: State) -> RequestId {
        debug_assert!(request.prompt_tokens > 0 && request.max_output_tokens > 0);
        let outputs = if self.config.role == Role::Prefill { 1 } else { request.max_output_tokens };
        let end = request.prompt_tokens.saturating_add(outputs);
        let end = self.config.max_model_len.map_or(end, |limit| end.min(limit));
        let id = self.arena.insert(request, end);
        self.unfinished += 1;
        self.arena[id].state = state;
        if state == State::Reserving {
            self.reserving.push_back(id);
        } else {
            self.waiting.push(id, &self.arena);
            self.head_refused &= self.config.policy == Policy::Fcfs;
        }
        id
    }

    pub(super) fn count_decode_passes(&mut self, passes: u32) {
        self.passes_since_prefill = self.passes_since_prefill.saturating_add(passes);
    }

    pub(super) fn retire(&mut self, mut entries: Vec<Scheduled>) {
        entries.clear();
        self.spare.push(entries);
    }
}

/// How a request joins a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) tokens: u32,
    pub(super) blocks_before: u32,
}

/// A pass in the making.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) budget: u32,
    pub(super) chunk_limit: u32,
    pub(super) prefill_held: bool,
    pub(super) scheduled: Vec<Scheduled>,
}

impl Plan {
    /// Takes a preempted request out of the pass again; gives its part if it had one.
    fn cancel(&mut self, id: RequestId) -> Option<Scheduled> {
        let position = self.scheduled.iter().position(|entry| entry.request == id)?;
        let entry = self.scheduled.remove(position);
        self.budget += entry.tokens;
        Some(entry)
    }
}

impl pass::Scheduler for Scheduler {
    fn submit(&mut self, request: Request) -> RequestId {
        self.take_in(request, if self.config.role == Role::Decode { State::Reserving } else { State::Waiting })
    }

    fn submit_local(&mut self, request: Request) -> RequestId {
        let id = self.take_in(request, State::Waiting);
        self.arena[id].local = true;
        id
    }

    fn abort(&mut self, request: RequestId) -> bool {
        self.remove(request)
    }

    fn activate(&mut self, request: RequestId) {
        self.activate_reserved(request);
    }

    fn release(&mut self, request: RequestId) {
        self.release_held(request);
    }

    fn reset_prefix_cache(&mut self, events: &mut KvEvents) -> bool {
        self.head_refused = false;
        self.pool.reset(events)
    }

    fn give_blocks(&mut self, pass: &mut Pass) {
        self.reserve(pass);
    }

    fn schedule(&mut self, pass: &mut Pass) {
        self.arena.recycle();
        let mut plan = Plan {
            budget: self.config.max_num_batched_tokens.unwrap_or(u32::MAX),
            chunk_limit: self.chunk_limit(),
            prefill_held: self.prefill_held(),
            scheduled: self.spare.pop().unwrap_or_default(),
        };
        let preempted = pass.preempted.len();
        self.schedule_running(&mut plan, pass);
        if pass.preempted.len() == preempted {
            self.enter_activated(&mut plan, pass);
            self.admit(&mut plan, pass);
        }
        self.seal(plan, pass);
    }

    fn complete(&mut self, pass: &mut Pass) {
        self.process_output(pass);
    }

    fn steady(&self, limit: u32) -> Option<Steady> {
        self.steady_passes(limit)
    }

    fn advance(&mut self, passes: u32, pass: &mut Pass) {
        self.advance_passes(passes, pass);
    }

    fn unfinished(&self) -> usize {
        self.unfinished
    }

    fn waiting(&self) -> usize {
        self.waiting.len() + self.reserving.len() + self.activated.len()
    }

    fn active_blocks(&self) -> u32 {
        self.pool.usable() - self.pool.free()
    }

    fn reserved_tokens(&self, request: RequestId) -> u32 {
        self.reserved_hit_tokens(request)
    }

    fn queued(&self) -> Queued {
        let mut queued = Queued::default();
        for sequence in self.waiting.iter().map(|id| &self.arena[id]) {
            if sequence.resumed {
                queued.sequences.add(sequence.known());
            } else {
                queued.prompts.add(sequence.request.prompt_tokens);
            }
        }
        for &id in self.reserving.iter().chain(&self.activated) {
            queued.sequences.add(self.arena[id].known());
        }
        queued
    }
}
