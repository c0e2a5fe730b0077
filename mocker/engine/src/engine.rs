//! One worker: its ranks, its timing, its passes on the time line.
//!
//! A step is one pass, or a run of equal decode passes planned at once. Who drives an engine calls
//! [`Engine::start`], waits until the returned time, and calls [`Engine::finish`] for what came of it; requests come and
//! go at any time between. A request that arrives during a run cuts it short ([`Engine::submit`] says so by the new end
//! of [`Engine::busy_until`]), so it waits for the pass in progress and no longer, as it would without runs.

mod settle;

use crate::pass::{KvEvents, Pass, PrefillBatch, Queued, Scheduler, Steady};
use crate::request::{Rejection, Request, RequestId, Role};
use crate::time::Nanos;
use crate::timing::Timing;
use crate::{sglang, vllm};

/// Most passes planned at once. A cut throws planned passes away, so a longer plan does not pay.
const RUN_PASSES_MAX: u32 = 128;

/// Settings of a rank's scheduler.
#[derive(Clone, Debug)]
pub enum SchedulerConfig {
    /// vLLM, or TensorRT-LLM.
    Vllm(vllm::Config),
    /// `SGLang`.
    Sglang(sglang::Config),
}

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The same for all ranks.
    pub scheduler: SchedulerConfig,
    /// Data-parallel ranks, at least 1. Each has a scheduler and a KV cache of its own; their passes run in step, and the
    /// slowest rank gives the time, as in an attention data-parallel group.
    pub dp_size: u32,
    /// Durations.
    pub timing: Timing,
    /// Size of one rank's KV cache in tokens, for the timing model.
    pub kv_capacity_tokens: u64,
    /// Part in the serving graph.
    pub role: Role,
    /// KV cache changes are reported with the steps.
    pub emit_kv_events: bool,
}

/// What a rank is busy with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests that have not ended.
    pub unfinished: usize,
    /// Those of them that wait to run.
    pub waiting: usize,
    /// Blocks held by requests.
    pub active_blocks: u32,
}

impl EngineConfig {
    /// Whether an engine with these settings could ever run a request to its end, alone if need be.
    pub fn check(&self, prompt_tokens: u32, max_output_tokens: u32) -> Result<(), Rejection> {
        if prompt_tokens == 0 || max_output_tokens == 0 {
            return Err(Rejection::Empty);
        }
        let output = if self.role == Role::Prefill { 1 } else { max_output_tokens };
        match &self.scheduler {
            SchedulerConfig::Vllm(config) => config.check(prompt_tokens, output),
            SchedulerConfig::Sglang(config) => config.check(prompt_tokens, output),
        }
    }
}

/// How much [`Engine::start`] may plan at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// One pass: somebody watches each token.
    Pass,
    /// As many equal passes as there are.
    Run,
}

/// A request inside an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// Data-parallel rank.
    pub rank: u32,
    /// Slot inside the rank's scheduler.
    pub request: RequestId,
}

/// What an engine did between two events.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// When its first pass began.
    pub start: Nanos,
    /// When each pass ended. Empty if nothing was computed (blocks were reserved, no more).
    pub ends: Vec<Nanos>,
    /// Per rank what happened. In a run of several passes, every request of `emitted` got its tokens in each of them,
    /// requests of `finished` ended with the last; `decode` describes the first pass.
    pub ranks: Vec<Pass>,
}

impl Step {
    /// When the last pass ended.
    pub fn end(&self) -> Nanos {
        self.ends.last().copied().unwrap_or(self.start)
    }

    fn clear(&mut self, now: Nanos) {
        self.start = now;
        self.ends.clear();
        for pass in &mut self.ranks {
            pass.clear();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Idle,
    /// A single pass; its outcome is in the step already.
    Pass,
    /// A run of equal passes; its outcome is decided when it ends or is cut.
    Run,
}

/// Async scheduling: a rank's next pass.
#[derive(Clone, Debug)]
struct Ahead {
    decided: bool,
    pass: Pass,
}

#[derive(Clone, Debug)]
enum Rank {
    Vllm(Box<vllm::Scheduler>),
    Sglang(Box<sglang::Scheduler>),
}

macro_rules! each {
    ($rank:expr, $inner:ident => $call:expr) => {
        match $rank {
            Rank::Vllm($inner) => $call,
            Rank::Sglang($inner) => $call,
        }
    };
}

impl Rank {
    fn schedule_and_complete(&mut self, pass: &mut Pass) {
        self.schedule(pass);
        each!(self, rank => rank.complete(pass));
    }

    /// Decides a pass. One that does nothing but throw requests out costs no time: what it made possible comes at once.
    fn schedule(&mut self, pass: &mut Pass) {
        loop {
            let preempted = pass.preempted.len();
            each!(self, rank => rank.schedule(pass));
            if !pass.is_idle() || pass.preempted.len() == preempted {
                return;
            }
            each!(self, rank => rank.complete(pass));
        }
    }

    /// Takes up the pass that was decided ahead and decides the one after it. The output of a pass that computes
    /// something is processed when it ends, of an empty one at once.
    fn schedule_ahead(&mut self, pass: &mut Pass, ahead: &mut Ahead) {
        if ahead.decided {
            std::mem::swap(pass, &mut ahead.pass);
        }
        if ahead.decided && pass.is_idle() {
            each!(self, rank => rank.complete(pass));
            ahead.decided = false;
        }
        if !ahead.decided {
            self.schedule(pass);
        }
        ahead.decided = !pass.is_idle();
        if ahead.decided {
            ahead.pass.clear();
            each!(self, rank => rank.schedule(&mut ahead.pass));
        } else {
            each!(self, rank => rank.complete(pass));
        }
    }
}

/// A simulated engine.
#[derive(Clone, Debug)]
pub struct Engine {
    ranks: Vec<Rank>,
    timing: Timing,
    kv_capacity_tokens: u64,
    role: Role,
    step: Step,
    /// The part of a run that was settled, until the next one is; kept for its buffers.
    settled: Step,
    /// Ends of passes that go on when a part of their run is settled; kept for its buffer.
    planned: Vec<Nanos>,
    activity: Activity,
    /// Async scheduling: the passes that were decided before the output of the one in progress is known, per rank.
    ahead: Option<Vec<Ahead>>,
    /// Rank of the next request that comes without one.
    next_rank: u32,
    /// Ranks whose prefix cache was dropped while no step was in progress: the next one reports it.
    dropped: Vec<u32>,
}

impl Engine {
    /// An idle engine.
    pub fn new(config: EngineConfig) -> Self {
        let rank = || match &config.scheduler {
            SchedulerConfig::Vllm(config) => Rank::Vllm(Box::new(vllm::Scheduler::new(config.clone()))),
            SchedulerConfig::Sglang(config) => Rank::Sglang(Box::new(sglang::Scheduler::new(config.clone()))),
        };
        let pass =
            || Pass { events: KvEvents { enabled: config.emit_kv_events, ..KvEvents::default() }, ..Pass::default() };
        let asynchronous = match &config.scheduler {
            SchedulerConfig::Vllm(config) => config.async_scheduling,
            SchedulerConfig::Sglang(_) => false,
        };
        let ahead = || Ahead { decided: false, pass: pass() };
        Self {
            ranks: (0..config.dp_size).map(|_| rank()).collect(),
            ahead: asynchronous.then(|| (0..config.dp_size).map(|_| ahead()).collect()),
            step: Step { ranks: (0..config.dp_size).map(|_| pass()).collect(), ..Step::default() },
            settled: Step { ranks: (0..config.dp_size).map(|_| pass()).collect(), ..Step::default() },
            planned: Vec::new(),
            timing: config.timing,
            kv_capacity_tokens: config.kv_capacity_tokens,
            role: config.role,
            activity: Activity::Idle,
            next_rank: 0,
            dropped: Vec::new(),
        }
    }

    /// Whether this engine could ever run a request to its end, alone if need be.
    pub fn check(&self, prompt_tokens: u32, max_output_tokens: u32) -> Result<(), Rejection> {
        if prompt_tokens == 0 || max_output_tokens == 0 {
            return Err(Rejection::Empty);
        }
        let output = if self.role == Role::Prefill { 1 } else { max_output_tokens };
        match &self.ranks[0] {
            Rank::Vllm(rank) => rank.check(prompt_tokens, output),
            Rank::Sglang(rank) => rank.check(prompt_tokens, output),
        }
    }

    /// Takes a request that [`Engine::check`] accepts; the next rank in turn gets it if none is named. A run in progress
    /// ends with the pass that has begun before `now`.
    pub fn submit(&mut self, now: Nanos, rank: Option<u32>, request: Request) -> Ticket {
        debug_assert_eq!(self.check(request.prompt_tokens, request.max_output_tokens), Ok(()));
        self.cut(now);
        let rank = rank.unwrap_or_else(|| self.rank_in_turn());
        let request = each!(&mut self.ranks[rank as usize], scheduler => scheduler.submit(request));
        Ticket { rank, request }
    }

    /// Like [`Engine::submit`], but in the decode role the prompt is computed here: nobody else has its KV.
    pub fn submit_local(&mut self, now: Nanos, rank: Option<u32>, request: Request) -> Ticket {
        debug_assert_eq!(self.check(request.prompt_tokens, request.max_output_tokens), Ok(()));
        self.cut(now);
        let rank = rank.unwrap_or_else(|| self.rank_in_turn());
        let request = each!(&mut self.ranks[rank as usize], scheduler => scheduler.submit_local(request));
        Ticket { rank, request }
    }

    fn rank_in_turn(&mut self) -> u32 {
        let rank = self.next_rank;
        self.next_rank = (rank + 1) % self.ranks.len() as u32;
        rank
    }

    /// Ends a request wherever it is. False if it has ended already (perhaps with the pass in progress).
    pub fn abort(&mut self, now: Nanos, ticket: Ticket) -> bool {
        self.commit(now);
        each!(&mut self.ranks[ticket.rank as usize], rank => rank.abort(ticket.request))
    }

    /// Decode role: the KV of a request has arrived.
    pub fn activate(&mut self, now: Nanos, ticket: Ticket) {
        self.cut(now);
        each!(&mut self.ranks[ticket.rank as usize], rank => rank.activate(ticket.request));
    }

    /// Prefill role: the KV of a finished request was taken over.
    pub fn release(&mut self, now: Nanos, ticket: Ticket) {
        self.commit(now);
        each!(&mut self.ranks[ticket.rank as usize], rank => rank.release(ticket.request));
    }

    /// Drops the prefix caches of all ranks whose blocks are all free; true if that were all of them. The step in
    /// progress reports it among its KV events, or the next one if there is none.
    pub fn reset_prefix_cache(&mut self, now: Nanos) -> bool {
        self.commit(now);
        let mut all = true;
        for (index, (rank, pass)) in self.ranks.iter_mut().zip(&mut self.step.ranks).enumerate() {
            let dropped = each!(rank, rank => rank.reset_prefix_cache(&mut pass.events));
            if dropped && self.activity == Activity::Idle {
                self.dropped.push(index as u32);
            }
            all &= dropped;
        }
        all
    }

    /// Begins the next step at `now` and says when it ends; none if nothing can run. The engine must not be busy.
    ///
    /// In the decode role, blocks are reserved between passes: such a step computes nothing and ends at once, so that KV
    /// that needs no time to arrive is there for the next pass.
    pub fn start(&mut self, now: Nanos, horizon: Horizon) -> Option<Nanos> {
        assert_eq!(self.activity, Activity::Idle, "the last step was not finished");
        self.step.clear(now);
        for &rank in &self.dropped {
            self.step.ranks[rank as usize].events.cleared();
        }
        if self.role == Role::Decode && self.reserve() {
            self.dropped.clear();
            self.activity = Activity::Pass;
            return Some(now);
        }
        if let Some(steady) = self.steady().filter(|_| horizon == Horizon::Run) {
            self.dropped.clear();
            self.plan_run(steady);
            self.activity = Activity::Run;
            return Some(self.step.end());
        }
        let mut duration = None;
        for (index, (rank, pass)) in self.ranks.iter_mut().zip(&mut self.step.ranks).enumerate() {
            match &mut self.ahead {
                Some(ahead) => rank.schedule_ahead(pass, &mut ahead[index]),
                None => rank.schedule_and_complete(pass),
            }
            if !pass.is_idle() {
                // What a decode engine computes of prompts that came with their KV is free.
                let prefill = if self.role == Role::Decode { pass.local_prefill } else { pass.prefill };
                let own = self.timing.pass(Role::Aggregated, prefill, pass.decode, self.kv_capacity_tokens);
                duration = duration.max(Some(own));
            }
        }
        self.step.ends.push(now + duration?);
        self.dropped.clear();
        self.activity = Activity::Pass;
        Some(self.step.end())
    }

    /// Decode role: gives waiting requests blocks; true if any got some.
    fn reserve(&mut self) -> bool {
        let ranks = self.ranks.iter_mut().zip(&mut self.step.ranks);
        ranks.for_each(|(rank, pass)| each!(rank, rank => rank.give_blocks(pass)));
        self.step.ranks.iter().any(|pass| !pass.reserved.is_empty())
    }

    /// When the step in progress ends; none if there is none.
    pub fn busy_until(&self) -> Option<Nanos> {
        (self.activity != Activity::Idle).then(|| self.step.end())
    }

    /// Ends the step in progress; the caller sees to it that its time has come.
    pub fn finish(&mut self) -> &Step {
        self.advance();
        self.activity = Activity::Idle;
        for (index, ahead) in self.ahead.iter_mut().flatten().enumerate() {
            let pass = &mut self.step.ranks[index];
            if !pass.is_idle() {
                each!(&mut self.ranks[index], rank => rank.complete(pass));
                // Whose last token was under way when it was preempted has ended all the same.
                ahead.pass.preempted.retain(|id| !pass.finished.contains(id));
            }
        }
        &self.step
    }

    /// Like [`Engine::finish`], but hands the step over: `step` is what was handed over before, or new, and its buffers
    /// are used again.
    pub fn finish_into(&mut self, step: &mut Step) {
        self.finish();
        if step.ranks.len() != self.step.ranks.len() {
            *step = self.step.clone();
        }
        std::mem::swap(&mut self.step, step);
    }

    /// One pass at `now`: [`Engine::start`] and [`Engine::finish`] at once. None if nothing can run.
    pub fn step(&mut self, now: Nanos) -> Option<&Step> {
        self.start(now, Horizon::Pass)?;
        Some(self.finish())
    }

    /// Part in the serving graph.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Data-parallel ranks.
    pub fn dp_size(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Requests that have not ended, over all ranks.
    pub fn unfinished(&self) -> usize {
        self.ranks.iter().map(|rank| each!(rank, rank => rank.unfinished())).sum()
    }

    /// Requests that wait to run, over all ranks.
    pub fn waiting(&self) -> usize {
        self.ranks.iter().map(|rank| each!(rank, rank => rank.waiting())).sum()
    }

    /// Blocks held by requests, over all ranks.
    pub fn active_blocks(&self) -> u32 {
        self.ranks.iter().map(|rank| each!(rank, rank => rank.active_blocks())).sum()
    }

    /// What a rank is busy with.
    pub fn load(&self, rank: u32) -> Load {
        each!(&self.ranks[rank as usize], rank => Load {
            unfinished: rank.unfinished(),
            waiting: rank.waiting(),
            active_blocks: rank.active_blocks(),
        })
    }

    /// The lengths of the requests of a rank that wait. Walks the queue.
    pub fn queued(&self, rank: u32) -> Queued {
        each!(&self.ranks[rank as usize], rank => rank.queued())
    }

    /// Decode role: prompt tokens of a request whose KV was found here when its blocks were reserved.
    pub fn reserved_tokens(&self, ticket: Ticket) -> u32 {
        each!(&self.ranks[ticket.rank as usize], rank => rank.reserved_tokens(ticket.request))
    }

    /// Adds the lengths behind each pass to the steps from now on ([`Pass::detail`]).
    pub fn report_detail(&mut self) {
        let ahead = self.ahead.iter_mut().flatten().map(|ahead| &mut ahead.pass);
        self.step
            .ranks
            .iter_mut()
            .chain(&mut self.settled.ranks)
            .chain(ahead)
            .for_each(|pass| pass.detail.enabled = true);
    }

    fn steady(&self) -> Option<Steady> {
        match self.ranks.as_slice() {
            [rank] => each!(rank, rank => rank.steady(RUN_PASSES_MAX)),
            _ => None,
        }
    }

    fn plan_run(&mut self, steady: Steady) {
        let mut batch = steady.decode;
        let mut end = self.step.start;
        self.step.ranks[0].decode = batch;
        for _ in 0..steady.passes {
            end += self.timing.pass(self.role, PrefillBatch::default(), batch, self.kv_capacity_tokens);
            self.step.ends.push(end);
            batch.kv_tokens += u64::from(batch.requests);
        }
    }

    /// Takes back the planned passes that would begin at or after `now`, but the first.
    fn cut(&mut self, now: Nanos) {
        if self.activity == Activity::Run {
            let begun = self.step.ends.partition_point(|&end| end < now) + 1;
            self.step.ends.truncate(begun);
        }
    }

    /// Cuts a run and fixes its outcome, before something changes the batch under it.
    fn commit(&mut self, now: Nanos) {
        self.cut(now);
        self.advance();
    }

    fn advance(&mut self) {
        if self.activity == Activity::Run {
            let passes = self.step.ends.len() as u32;
            each!(&mut self.ranks[0], rank => rank.advance(passes, &mut self.step.ranks[0]));
            self.activity = Activity::Pass;
        }
    }
}
