//! Many equal decode passes at once.

use super::scheduler::Scheduler;
use crate::pass::{DecodeBatch, Emission, Pass, Steady};

impl Scheduler {
    pub(super) fn steady_passes(&self) -> Option<Steady> {
        if self.config.async_scheduling || self.config.mtp.is_some() || !self.passes.is_empty() {
            return None;
        }
        if self.running.is_empty() || !self.reserving.is_empty() || !self.activated.is_empty() {
            return None;
        }
        if self.waiting.len() > 0 && self.has_seat() && !self.head_refused {
            return None;
        }
        let budget = self.config.max_num_batched_tokens.unwrap_or(u32::MAX);
        if self.running.len() as u64 > u64::from(budget) {
            return None;
        }
        let mut passes = u32::MAX;
        let mut kv_tokens = 0;
        for &id in &self.running {
            let sequence = &self.arena[id];
            if !sequence.decoding {
                return None;
            }
            let known = sequence.known();
            // Neither the pass that ends a request, nor the one that fills a block, nor the one that needs a new block.
            let position = sequence.computed % self.config.block_size;
            let in_block = if position == 0 { 0 } else { self.config.block_size - 1 - position };
            passes = passes.min(sequence.end - known - 1).min(in_block);
            if passes == 0 {
                return None;
            }
            kv_tokens += u64::from(known);
        }
        Some(Steady { passes, decode: DecodeBatch { requests: self.running.len() as u32, kv_tokens } })
    }

    pub(super) fn advance_passes(&mut self, passes: u32, pass: &mut Pass) {
        self.arena.recycle();
        for &id in &self.running {
            let sequence = &mut self.arena[id];
            sequence.outputs += passes;
            sequence.computed += passes;
            pass.emitted.push(Emission { request: id, tokens: 1 });
        }
        self.count_decode_passes(passes);
    }
}
