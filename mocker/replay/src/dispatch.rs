//! From a request to a worker: a pool's turn or its router decides, a queue may come between.

use dynosim_engine::hash::mix;
use dynosim_engine::{BlockHashes, Request};
use dynosim_router::Decision;
use dynosim_workload::Ending;

use crate::digest::Happened;
use crate::explain;
use crate::live::{LiveId, Seat};
use crate::pools::{Order, Pools, Stage};
use crate::records::TerminalStatus;
use crate::replay::Replay;

/// Names the stream that sets output blocks of different requests apart.
const OUTPUT_BLOCKS: u64 = u64::from_be_bytes(*b"outputkv");

impl Replay<'_> {
    /// Sends a request that has come in to the pool that takes it first.
    pub(crate) fn send(&mut self, id: LiveId) {
        let pool = match &self.pools.handoff {
            Some(handoff) if handoff.order == Order::DestinationFirst => Pools::DECODE,
            _ => Pools::PREFILL,
        };
        let turn = self.lives.get(id).turn;
        if let Err(rejection) = self.pools.check(turn.input_tokens, turn.output_tokens) {
            // Who is dealt a request that it refuses has had its turn.
            if self.pools.get(pool).router.is_none() {
                self.pools.get_mut(pool).turn();
            }
            self.refuse(id, rejection.to_string());
        } else {
            self.route(pool, id);
        }
    }

    /// Chooses a worker of a pool for a request and sends it there, or lets it wait.
    pub(crate) fn route(&mut self, pool: usize, id: LiveId) {
        if self.pools.get(pool).router.is_none() {
            let worker = self.pools.get_mut(pool).turn();
            return self.place(pool, id, worker, None);
        }
        self.look(pool);
        let Some(router) = &mut self.pools.get_mut(pool).router else { return };
        let turn = &self.lives.get(id).turn;
        if self.explain == Some(turn.row) {
            router.watch(id);
        }
        let class = turn.policy_class.and_then(|class| self.workload.policy_class_name(class));
        match router.submit(self.now, id, turn, self.lives.hashes(id), class) {
            Ok(Some(decision)) => self.follow(pool, id, &decision),
            Ok(None) => {}
            Err(error) => self.refuse(id, error.to_string()),
        }
    }

    /// Before a choice: lets a pool's router see all that has happened by now.
    pub(crate) fn look(&mut self, pool: usize) {
        self.settle(pool);
        if let Some(router) = &mut self.pools.get_mut(pool).router {
            router.catch_up(self.now);
        }
    }

    /// Sends those on that have left the queue of a pool's router.
    pub(crate) fn admit(&mut self, pool: usize) {
        let Some(router) = &mut self.pools.get_mut(pool).router else { return };
        self.admitted.extend(router.admitted().map(|admission| (pool, admission)));
        while let Some((pool, admission)) = self.admitted.pop_front() {
            let id = LiveId(admission.id as u32);
            match admission.outcome {
                Ok(decision) => self.follow(pool, id, &decision),
                Err(error) => self.refuse(id, error.to_string()),
            }
        }
    }

    /// Sends a request to the worker that the router has chosen.
    fn follow(&mut self, pool: usize, id: LiveId, decision: &Decision) {
        let state = self.pools.get_mut(pool);
        let first = state.workers.start;
        let Some(router) = &mut state.router else { return };
        let live = self.lives.get_mut(id);
        if self.explain == Some(live.turn.row)
            && let Some(explanation) = router.take_explanation()
        {
            self.collector.explanations.push(explain::text(state.stage, &explanation));
        }
        let blocks = decision.matched.device + decision.matched.host + decision.matched.disk;
        let overlap = Some((blocks * router.block_size).min(live.turn.input_tokens));
        match state.stage {
            Stage::Prefill => live.course.prefill_overlap = overlap,
            Stage::Whole | Stage::Decode => live.overlap = overlap,
        }
        self.place(pool, id, first + decision.target.worker as u32, Some(decision.target.rank));
    }

    /// Hands a request to a worker.
    fn place(&mut self, pool: usize, id: LiveId, worker: u32, rank: Option<u32>) {
        let at = self.pools.get(pool);
        let (stage, shown) = (at.stage, Some(worker - at.workers.start + self.first_worker));
        self.collector.digest.add(self.now, Happened::Routed, u64::from(worker));
        let other = self.pools.handoff.is_some_and(|handoff| match handoff.order {
            Order::SourceFirst => stage == Stage::Prefill,
            Order::DestinationFirst => stage == Stage::Decode,
        });
        // The second engine of two gets the hashes themselves.
        let known = if other { self.lives.hashes(id).to_vec() } else { self.lives.take_hashes(id) };
        let turn = &self.lives.get(id).turn;
        let request = Request {
            prompt_tokens: turn.input_tokens,
            max_output_tokens: turn.output_tokens,
            // Traces say larger is sooner, vLLM lower is sooner.
            priority: turn.priority.saturating_neg(),
            ignore_eos: true,
            hashes: BlockHashes { known, salt: mix(OUTPUT_BLOCKS, turn.row) },
        };
        let seat: Seat = self.workers.submit(self.now, worker, rank, (id, request), &mut self.events);
        let live = self.lives.get_mut(id);
        match stage {
            Stage::Whole => live.worker = shown,
            Stage::Prefill => (live.course.prefill_worker, live.course.source) = (shown, Some(seat)),
            Stage::Decode => (live.worker, live.course.destination) = (shown, Some(seat)),
        }
    }

    /// No worker can run a request, or none may. What it holds in the other pool goes.
    fn refuse(&mut self, id: LiveId, why: String) {
        let course = self.lives.get(id).course;
        if let Some(seat) = course.source {
            self.workers.release(self.now, seat, &mut self.events);
        }
        if let Some(seat) = course.destination {
            self.workers.abort(self.now, seat, &mut self.events);
            self.leave_router(Pools::DECODE, id);
        }
        let Some(live) = self.lives.take(id) else { return };
        self.collector.rejected += 1;
        self.collector.digest.add(self.now, Happened::Rejected, live.turn.row);
        let workload = &self.workload;
        let session = || workload.session_name(live.turn.session).into_owned();
        self.collector.record(&live, session, TerminalStatus::Rejected, Some(why));
        self.continue_session(&live.turn, Ending::Rejected);
    }
}
