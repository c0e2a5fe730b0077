//! An index of what the router has sent where, for workers that tell nothing: each block is believed to stay for a while
//! after the last request that had it.

use std::collections::VecDeque;

use dynosim_engine::Nanos;
use rustc_hash::FxHashMap;

use crate::index::{Found, Index, IndexSize, Slot};

/// A request's blocks, all with one time.
#[derive(Debug)]
struct Stay {
    until: Nanos,
    slot: Slot,
    blocks: Box<[u64]>,
}

/// Blocks with a time to live.
#[derive(Debug)]
pub(crate) struct Approximate {
    index: Index,
    ttl: Nanos,
    /// Oldest first: all live equally long.
    stays: VecDeque<Stay>,
    until: FxHashMap<(Slot, u64), Nanos>,
}

impl Approximate {
    /// Empty, with the time that blocks stay.
    pub(crate) fn new(ttl: Nanos) -> Self {
        Self { index: Index::default(), ttl, stays: VecDeque::new(), until: FxHashMap::default() }
    }

    /// A request went to a rank. A shorter prompt refreshes its own blocks only.
    pub(crate) fn sent(&mut self, now: Nanos, slot: Slot, tokens: &[u64], blocks: &[u64]) {
        if blocks.is_empty() || self.index.stored(slot, None, tokens, blocks).is_err() {
            return;
        }
        let until = now + self.ttl;
        for &block in blocks {
            self.until.insert((slot, block), until);
        }
        self.stays.push_back(Stay { until, slot, blocks: blocks.into() });
    }

    /// Forgets what has been there for too long.
    pub(crate) fn expire(&mut self, now: Nanos) {
        while self.stays.front().is_some_and(|stay| stay.until <= now) {
            let Some(stay) = self.stays.pop_front() else { break };
            let mut gone = Vec::new();
            for &block in stay.blocks.iter().rev() {
                if self.until.get(&(stay.slot, block)) == Some(&stay.until) {
                    self.until.remove(&(stay.slot, block));
                    gone.push(block);
                }
            }
            // What is unknown is gone already.
            let _ = self.index.removed(stay.slot, &gone);
        }
    }

    /// Finds how many blocks each rank is believed to hold.
    pub(crate) fn find(&self, tokens: &[u64], found: &mut Found) {
        self.index.find(tokens, found);
    }

    /// Block hash of the block `depth` of the prompt last looked up.
    pub(crate) fn block_at(&self, found: &Found, depth: u32) -> Option<u64> {
        self.index.block_at(found, depth)
    }

    /// A rank starts empty.
    pub(crate) fn cleared(&mut self, slot: Slot) {
        self.index.cleared(slot);
        self.until.retain(|&(who, _), _| who != slot);
        self.stays.retain(|stay| stay.slot != slot);
    }

    /// How large it is.
    pub(crate) fn size(&self) -> IndexSize {
        self.index.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_prompt_refreshes_its_own_blocks_only() {
        let mut sent = Approximate::new(Nanos(100));
        let blocks = |sent: &Approximate| {
            let mut found = Found::default();
            found.reset(2);
            sent.find(&[1, 2, 3], &mut found);
            found.blocks.clone()
        };
        sent.sent(Nanos(0), 1, &[1, 2, 3], &[1, 12, 13]);
        sent.sent(Nanos(60), 1, &[1], &[1]);
        sent.expire(Nanos(99));
        assert_eq!(blocks(&sent), [0, 3]);
        sent.expire(Nanos(100));
        assert_eq!(blocks(&sent), [0, 1]);
        sent.expire(Nanos(160));
        assert_eq!(blocks(&sent), [0, 0]);
        assert!(sent.until.is_empty() && sent.stays.is_empty());
    }
}
