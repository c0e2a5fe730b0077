//! The second half of a pass: waiting requests, in order, until the head cannot be admitted.

use super::scheduler::{Entry, Kind, Plan, Scheduler};
use super::sequence::State;
use crate::kv::Hit;
use crate::pass::{Admission, Pass};
use crate::request::RequestId;

/// What the head of the queue would get.
#[derive(Clone, Copy, Debug)]
struct Offer {
    hit: Hit,
    cached_tokens: u32,
    tokens: u32,
}

impl Scheduler {
    pub(super) fn admit(&mut self, plan: &mut Plan, pass: &mut Pass) {
        while plan.budget > 0 && self.has_seat() {
            let Some(id) = self.waiting.front() else { break };
            let Some(offer) = self.offer(id, plan) else { break };
            self.waiting.pop_front();
            self.enter(id, offer, plan, pass);
        }
        if !plan.prefill_held {
            self.queue_drained = self.waiting.len() == 0;
        }
    }

    /// One more request may run.
    pub(super) fn has_seat(&self) -> bool {
        let limit = self.config.max_num_active_seqs.or(self.config.max_num_seqs);
        limit.is_none_or(|limit| (self.running.len() as u32) < limit)
    }

    /// The cached prefix of a request's first `tokens` tokens. One of them at least is computed: its output is wanted.
    pub(super) fn prefix_hit(&mut self, id: RequestId, tokens: u32) -> Hit {
        if !self.config.enable_prefix_caching {
            return Hit::default();
        }
        self.pool.lookup(&self.arena[id].request.hashes, (tokens - 1) / self.config.block_size)
    }

    fn offer(&mut self, id: RequestId, plan: &Plan) -> Option<Offer> {
        if self.head_refused {
            return None;
        }
        let known = self.arena[id].known();
        let hit = self.prefix_hit(id, known);
        let cached_tokens = hit.blocks * self.config.block_size;
        let rest = known - cached_tokens;
        let wanted = rest.min(plan.chunk_limit);
        if plan.prefill_held && rest > 1 {
            return None;
        }
        if !self.config.enable_chunked_prefill && wanted > plan.budget {
            return None;
        }
        let tokens = wanted.min(plan.budget);
        if !self.fits(id, hit, cached_tokens + tokens) {
            // Otherwise what it needs depends on the budget that is left, and a smaller chunk may fit.
            self.head_refused = self.config.scheduler_reserve_full_isl && self.config.mtp.is_none();
            return None;
        }
        Some(Offer { hit, cached_tokens, tokens })
    }

    fn fits(&self, id: RequestId, hit: Hit, computed: u32) -> bool {
        let sequence = &self.arena[id];
        let tokens = if self.config.scheduler_reserve_full_isl { sequence.known() } else { computed };
        // Inactive hits leave the free blocks as much as new blocks do.
        let needed =
            self.blocks_for(tokens).max(self.blocks_for(computed + self.lookahead())) - hit.blocks + hit.inactive;
        let kept = if self.running.is_empty() {
            0
        } else {
            (self.config.watermark * f64::from(self.config.num_gpu_blocks)) as u32
        };
        self.may_promise(id) && needed + kept <= self.pool.free()
    }

    fn enter(&mut self, id: RequestId, offer: Offer, plan: &mut Plan, pass: &mut Pass) {
        let sequence = &mut self.arena[id];
        self.pool.take_hits(&mut sequence.blocks);
        sequence.stored = offer.hit.blocks;
        sequence.computed = offer.cached_tokens;
        sequence.state = State::Running;
        let resumed = sequence.resumed;
        self.promise(id);
        let grown = self.grow(id, offer.tokens, &mut pass.events);
        assert!(grown, "the admission test counted the free blocks");
        self.running.push(id);
        let kind = if resumed { Kind::Resumed } else { Kind::New };
        self.take(id, Entry { kind, tokens: offer.tokens, blocks_before: 0 }, plan, pass);
        pass.admitted.push(Admission { request: id, cached_tokens: offer.cached_tokens, resumed });
    }
}
