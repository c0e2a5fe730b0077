//! What comes of steps: samples, news for routers, and requests that go on or end.

use std::collections::VecDeque;

use dynosim_engine::{Nanos, RequestId, Step};
use dynosim_workload::Ending;

use crate::collector::Collector;
use crate::live::{LiveId, LiveRequests};
use crate::pools::{PoolState, Stage};
use crate::replay::Replay;
use crate::workers::Worker;

/// What a step has done for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It has made the request's first token.
    FirstToken(LiveId),
    /// It has made the request's last token.
    Ended(LiveId),
    /// A decode worker has blocks for the request's prompt.
    Reserved(LiveId),
    /// A prefill worker has computed the request's prompt.
    Held(LiveId),
}

/// What steps have done, to be dealt with in order: what has ended first, so that routers know it when they choose.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// With the pool.
    ends: VecDeque<(usize, Effect)>,
    others: VecDeque<(usize, Effect)>,
}

impl Effects {
    fn push(&mut self, pool: usize, effect: Effect) {
        match effect {
            Effect::FirstToken(_) | Effect::Ended(_) => self.ends.push_back((pool, effect)),
            Effect::Reserved(_) | Effect::Held(_) => self.others.push_back((pool, effect)),
        }
    }

    fn pop(&mut self) -> Option<(usize, Effect)> {
        self.ends.pop_front().or_else(|| self.others.pop_front())
    }
}

impl Replay<'_> {
    /// The step of a worker ends, unless it was cut since that was announced.
    pub(crate) fn end_step(&mut self, index: u32, version: u32) {
        if !self.workers.is_current(index, version) {
            return;
        }
        let Self { workers, pools, collector, lives, effects, now, .. } = self;
        let worker = workers.get_mut(index);
        let (at, pool) = (worker.pool, pools.get_mut(worker.pool));
        let Worker { engine, slots, .. } = worker;
        let mut news = News { pool, collector, lives, index, now: *now };
        news.take(engine.finish(), slots, |effect| effects.push(at, effect));
        self.workers.ended(index);
    }

    /// Ends those passes of the pool's runs that have ended, so that its router sees what they did.
    pub(crate) fn settle(&mut self, at: usize) {
        let Self { workers, pools, collector, lives, effects, now, .. } = self;
        let pool = pools.get_mut(at);
        if !pool.router.as_ref().is_some_and(|router| router.sees_events() || router.tracks_output) {
            return;
        }
        for index in pool.workers.clone() {
            let Worker { engine, slots, .. } = workers.get_mut(index);
            let Some(step) = engine.settle(*now) else { continue };
            let mut news = News { pool, collector, lives, index, now: *now };
            news.take(step, slots, |effect| effects.push(at, effect));
            if engine.busy_until().is_none() {
                workers.ended(index);
            }
        }
    }

    /// Deals with what came of steps.
    pub(crate) fn deal(&mut self) {
        while let Some((pool, effect)) = self.effects.pop() {
            match effect {
                Effect::FirstToken(id) => {
                    self.look_for_waiting(pool);
                    if let Some(router) = &mut self.pools.get_mut(pool).router {
                        router.prefill_complete(self.now, id);
                    }
                    self.admit(pool);
                }
                Effect::Ended(id) => self.end(pool, id),
                Effect::Reserved(id) => self.blocks_are_reserved(id),
                Effect::Held(id) => self.prompt_is_held(id),
            }
        }
    }

    /// A request has all its output.
    fn end(&mut self, pool: usize, id: LiveId) {
        self.leave_router(pool, id);
        if let Some(live) = self.lives.take(id) {
            let workload = &self.workload;
            self.collector.completed(&live, || workload.session_name(live.turn.session).into_owned());
            self.continue_session(&live.turn, Ending::Completed);
        }
    }

    /// A pool is done with a request; others may come in for it.
    pub(crate) fn leave_router(&mut self, pool: usize, id: LiveId) {
        self.look_for_waiting(pool);
        if let Some(router) = &mut self.pools.get_mut(pool).router {
            router.free(self.now, id);
        }
        self.admit(pool);
    }

    /// Who may leave the queue now is sent by what can be seen now.
    pub(crate) fn look_for_waiting(&mut self, pool: usize) {
        if self.pools.get(pool).router.as_ref().is_some_and(|router| router.has_waiting()) {
            self.look(pool);
        }
    }
}

/// Where the news of a step go.
struct News<'a> {
    pool: &'a mut PoolState,
    collector: &'a mut Collector,
    lives: &'a mut LiveRequests,
    index: u32,
    now: Nanos,
}

impl News<'_> {
    fn take(&mut self, step: &Step, slots: &[Vec<LiveId>], mut tell: impl FnMut(Effect)) {
        let stage = self.pool.stage;
        self.inform_router(step, slots);
        self.collector.step_ended(step, self.index);
        for (rank, pass) in step.ranks.iter().enumerate() {
            let slots = &slots[rank];
            let id = |request: &RequestId| slots[request.index()];
            if stage == Stage::Whole && self.pool.router.is_some() {
                for emission in &pass.emitted {
                    let id = id(&emission.request);
                    if self.lives.get(id).tokens == 0 {
                        tell(Effect::FirstToken(id));
                    }
                }
            }
            self.collector.rank_step(step, rank, slots, self.lives, stage);
            pass.reserved.iter().for_each(|request| tell(Effect::Reserved(id(request))));
            let ended = if stage == Stage::Prefill { Effect::Held } else { Effect::Ended };
            pass.finished.iter().for_each(|request| tell(ended(id(request))));
        }
    }

    /// Tells the router of the pool what became of the caches, and which blocks output has filled.
    fn inform_router(&mut self, step: &Step, slots: &[Vec<LiveId>]) {
        let Some(router) = &mut self.pool.router else { return };
        if router.sees_events() {
            router.learn(self.now, self.index - self.pool.workers.start, step);
        }
        if !router.tracks_output || self.pool.stage == Stage::Prefill {
            return;
        }
        for (pass, slots) in step.ranks.iter().zip(slots) {
            for emission in &pass.emitted {
                let id = slots[emission.request.index()];
                let live = self.lives.get(id);
                let before = live.turn.input_tokens + live.tokens;
                let after = before + emission.tokens * step.ends.len() as u32;
                router.output_blocks(id, after / router.block_size - before / router.block_size);
            }
        }
    }
}
