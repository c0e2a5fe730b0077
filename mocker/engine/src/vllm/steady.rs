//! Many equal decode passes at once.

use super::scheduler::Scheduler;
use crate::pass::{DecodeBatch, Emission, Pass, Steady};

/// A block is taken or filled in one of the passes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlockEvent {
    /// The pass, from 0.
    pass: u32,
    /// Place in the running list.
    place: u32,
}

impl Scheduler {
    pub(super) fn steady_passes(&self, limit: u32) -> Option<Steady> {
        if self.config.async_scheduling || self.config.mtp.is_some() || !self.passes.is_empty() {
            return None;
        }
        if self.running.is_empty() || !self.reserving.is_empty() || !self.activated.is_empty() {
            return None;
        }
        // With a place for it, the head of the queue may come in as soon as the cache changes.
        let watched = self.waiting.len() > 0 && self.has_seat();
        if watched && !self.head_refused {
            return None;
        }
        let budget = self.config.max_num_batched_tokens.unwrap_or(u32::MAX);
        if self.running.len() as u64 > u64::from(budget) {
            return None;
        }
        let mut passes = limit;
        let mut kv_tokens = 0;
        for &id in &self.running {
            let sequence = &self.arena[id];
            if !sequence.decoding {
                return None;
            }
            kv_tokens += u64::from(sequence.known());
            passes = passes.min(sequence.end - sequence.known());
            if watched {
                let position = sequence.computed % self.config.block_size;
                passes = passes.min(if position == 0 { 0 } else { self.config.block_size - 1 - position });
            }
        }
        while self.blocks_taken_in(passes) > self.pool.free() {
            passes /= 2;
        }
        let decode = DecodeBatch { requests: self.running.len() as u32, kv_tokens };
        (passes > 0).then_some(Steady { passes, decode })
    }

    /// Blocks that the running requests need for so many decode passes.
    fn blocks_taken_in(&self, passes: u32) -> u32 {
        let free = self.pool.free() as usize;
        if self.running.len() * (passes.div_ceil(self.config.block_size) as usize + 1) <= free {
            return 0;
        }
        let needed = |&id| {
            let sequence = &self.arena[id];
            self.blocks_for(sequence.computed + passes).saturating_sub(sequence.blocks.len() as u32)
        };
        self.running.iter().map(needed).sum()
    }

    pub(super) fn advance_passes(&mut self, passes: u32, pass: &mut Pass) {
        self.arena.recycle();
        self.take_and_store(passes, pass);
        let mut ending = false;
        for &id in &self.running {
            let sequence = &mut self.arena[id];
            sequence.outputs += passes;
            sequence.computed += passes;
            ending |= sequence.known() >= sequence.end;
            pass.emitted.push(Emission { request: id, tokens: 1 });
        }
        if ending {
            for place in 0..self.running.len() {
                self.finish_if_done(self.running[place], pass);
            }
            self.drop_finished();
        }
        self.count_decode_passes(passes);
    }

    /// Takes and fills blocks in the order in which single passes would have.
    fn take_and_store(&mut self, passes: u32, pass: &mut Pass) {
        let block_size = self.config.block_size;
        let mut due = std::mem::take(&mut self.block_events);
        for (place, &id) in self.running.iter().enumerate() {
            let place = place as u32;
            // A block is taken for the token at its start and filled by the one at its end.
            let position = self.arena[id].computed % block_size;
            let mut first = if position == 0 { 0 } else { block_size - position };
            if position != 0 && first - 1 < passes {
                due.push(BlockEvent { pass: first - 1, place });
            }
            while first < passes {
                due.push(BlockEvent { pass: first, place });
                if block_size > 1 && first + block_size - 1 < passes {
                    due.push(BlockEvent { pass: first + block_size - 1, place });
                }
                first += block_size;
            }
        }
        due.sort_unstable();
        for event in due.drain(..) {
            let id = self.running[event.place as usize];
            let computed = self.arena[id].computed + event.pass;
            pass.events.in_pass = event.pass;
            if computed.is_multiple_of(block_size) && self.arena[id].blocks.len() as u32 * block_size == computed {
                self.pool.allocate(1, &mut self.arena[id].blocks, &mut pass.events);
            }
            self.store_full(id, computed + 1, &mut pass.events);
        }
        self.block_events = due;
    }
}
