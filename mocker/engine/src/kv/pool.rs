//! The pool of blocks: who holds them, what they contain, which are free.

use hashbrown::HashTable;

use super::BlockId;
use super::eviction::{Eviction, EvictionPolicy, Policy};
use crate::hash::BlockHashes;
use crate::pass::KvEvents;

#[derive(Clone, Copy, Debug)]
struct Block {
    hash: u64,
    /// Sequences that hold it.
    holders: u32,
    /// Next block of the same content, in the order of their stores.
    twin: BlockId,
    /// `hash` is valid: the block is full and can be found.
    cached: bool,
}

/// Leading blocks of a prompt that are in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// Number of blocks.
    pub blocks: u32,
    /// Those among them that nobody holds: taking them uses up free blocks.
    pub inactive: u32,
}

/// A fixed number of KV blocks with reference counts and a prefix cache.
#[derive(Clone, Debug)]
pub struct BlockPool {
    blocks: Vec<Block>,
    /// Free blocks without content; taken from the end.
    clean: Vec<BlockId>,
    /// Free blocks with content.
    inactive: Policy,
    /// Content to the first block that was stored with it.
    table: HashTable<BlockId>,
}

impl BlockPool {
    /// A pool of `blocks`, the null block included (at least 2).
    pub fn new(blocks: u32, eviction: Eviction) -> Self {
        let empty = Block { hash: 0, holders: 0, twin: BlockId::NONE, cached: false };
        Self {
            blocks: vec![empty; blocks as usize],
            clean: (1..blocks).rev().map(BlockId).collect(),
            inactive: Policy::new(eviction, blocks),
            table: HashTable::with_capacity(blocks as usize),
        }
    }

    /// Blocks that can be handed out in all.
    pub fn usable(&self) -> u32 {
        self.blocks.len() as u32 - 1
    }

    /// Blocks that nobody holds.
    pub fn free(&self) -> u32 {
        self.clean.len() as u32 + self.inactive.count()
    }

    /// Free blocks whose handing out evicts nothing.
    pub fn clean(&self) -> u32 {
        self.clean.len() as u32
    }

    /// The longest cached prefix among the first `limit` blocks of a sequence; changes nothing.
    pub fn lookup(&self, hashes: &BlockHashes, limit: u32) -> Hit {
        let mut hit = Hit::default();
        for index in 0..limit {
            let Some(block) = self.find(hashes.get(index as usize)) else { break };
            hit.blocks += 1;
            hit.inactive += u32::from(self.blocks[block.index()].holders == 0);
        }
        hit
    }

    /// Takes the first `blocks` blocks of a sequence, all of which [`BlockPool::lookup`] has just found.
    pub fn take_hits(&mut self, hashes: &BlockHashes, blocks: u32, into: &mut Vec<BlockId>) {
        for index in 0..blocks {
            let hash = hashes.get(index as usize);
            let block = self.find(hash).expect("the caller looked it up");
            if self.blocks[block.index()].holders == 0 {
                self.inactive.remove(block);
            }
            self.blocks[block.index()].holders += 1;
            self.inactive.touch(hash);
            into.push(block);
        }
    }

    /// Hands out one block without content; evicts if there is no other. The caller has checked [`BlockPool::free`].
    pub fn allocate(&mut self, events: &mut KvEvents) -> BlockId {
        let block = self.clean.pop().unwrap_or_else(|| {
            let block = self.inactive.evict().expect("the caller checked that a block is free");
            events.removed(std::iter::once(self.blocks[block.index()].hash));
            self.forget(block);
            block
        });
        self.blocks[block.index()].holders = 1;
        block
    }

    /// A held block is full: it can be found from now on.
    pub fn store(&mut self, block: BlockId, hash: u64) {
        debug_assert!(self.blocks[block.index()].holders > 0 && !self.blocks[block.index()].cached);
        let blocks = &mut self.blocks;
        let same = |&other: &BlockId| blocks[other.index()].hash == hash;
        if let Some(&first) = self.table.find(hash, same) {
            let mut last = first;
            while blocks[last.index()].twin != BlockId::NONE {
                last = blocks[last.index()].twin;
            }
            blocks[last.index()].twin = block;
        } else {
            self.table.insert_unique(hash, block, |&other| blocks[other.index()].hash);
        }
        let entry = &mut self.blocks[block.index()];
        entry.hash = hash;
        entry.cached = true;
        entry.twin = BlockId::NONE;
        self.inactive.touch(hash);
    }

    /// A sequence lets go of its blocks, deepest first; clears `blocks`.
    ///
    /// Blocks without content become the next to be handed out (the deepest first of all), as in vLLM's free queue.
    pub fn release(&mut self, blocks: &mut Vec<BlockId>) {
        for index in (0..blocks.len()).rev() {
            let block = blocks[index];
            let entry = &mut self.blocks[block.index()];
            entry.holders -= 1;
            if entry.holders == 0 && entry.cached {
                let parent = index.checked_sub(1).map(|before| blocks[before]);
                self.inactive.insert(block, entry.hash, parent);
            }
        }
        let free = |block: &&BlockId| {
            let entry = &self.blocks[block.index()];
            entry.holders == 0 && !entry.cached
        };
        self.clean.extend(blocks.iter().filter(free));
        blocks.clear();
    }

    /// Forgets all content. False, and no change, if a block is held.
    pub fn reset(&mut self, events: &mut KvEvents) -> bool {
        if self.free() < self.usable() {
            return false;
        }
        let content = self.clean.len();
        let mut order = Vec::with_capacity(self.inactive.count() as usize);
        while let Some(block) = self.inactive.evict() {
            self.forget(block);
            order.push(block);
        }
        // Former content is handed out after what was clean, in the order in which it would have been evicted.
        self.clean.splice(0..0, order.into_iter().rev());
        debug_assert!(content <= self.clean.len());
        events.cleared();
        true
    }

    /// All free blocks, the next one to be handed out first. For tests and dumps.
    pub fn free_order(&self) -> Vec<BlockId> {
        let mut inactive = self.inactive.clone();
        let mut order: Vec<_> = self.clean.iter().rev().copied().collect();
        order.extend(std::iter::from_fn(|| inactive.evict()));
        order
    }

    /// How many sequences hold a block.
    pub fn holders(&self, block: BlockId) -> u32 {
        self.blocks[block.index()].holders
    }

    fn find(&self, hash: u64) -> Option<BlockId> {
        self.table.find(hash, |&block| self.blocks[block.index()].hash == hash).copied()
    }

    /// Drops the content of a free block that the policy has let go.
    fn forget(&mut self, block: BlockId) {
        let Block { hash, twin, .. } = self.blocks[block.index()];
        let blocks = &mut self.blocks;
        let entry = self.table.find_entry(hash, |&other| blocks[other.index()].hash == hash);
        let mut entry = entry.expect("cached blocks are in the table");
        if *entry.get() != block {
            let mut before = *entry.get();
            while blocks[before.index()].twin != block {
                before = blocks[before.index()].twin;
            }
            blocks[before.index()].twin = twin;
        } else if twin == BlockId::NONE {
            entry.remove();
        } else {
            *entry.get_mut() = twin;
        }
        let entry = &mut self.blocks[block.index()];
        entry.cached = false;
        entry.twin = BlockId::NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(known: &[u64]) -> BlockHashes {
        BlockHashes { known: known.to_vec(), salt: 0 }
    }

    fn fill(pool: &mut BlockPool, known: &[u64], events: &mut KvEvents) -> Vec<BlockId> {
        known
            .iter()
            .map(|&hash| {
                let block = pool.allocate(events);
                pool.store(block, hash);
                block
            })
            .collect()
    }

    #[test]
    fn a_prefix_is_found_until_it_is_evicted_deepest_block_first() {
        let mut pool = BlockPool::new(5, Eviction::Lru);
        let mut events = KvEvents { enabled: true, ..KvEvents::default() };
        let mut held = fill(&mut pool, &[10, 11, 12], &mut events); // free: 4
        pool.release(&mut held); // free: 4 | 3 2 1
        assert_eq!(pool.free_order(), [4, 3, 2, 1].map(BlockId));
        assert_eq!(pool.lookup(&hashes(&[10, 11, 12, 13]), 4), Hit { blocks: 3, inactive: 3 });
        pool.allocate(&mut events);
        assert_eq!(pool.allocate(&mut events), BlockId(3));
        assert_eq!(events.hashes, [12]);
        assert_eq!(pool.lookup(&hashes(&[10, 11, 12]), 3).blocks, 2);
    }

    #[test]
    fn equal_blocks_are_kept_apart_and_the_first_stored_is_found() {
        let mut pool = BlockPool::new(8, Eviction::Lru);
        let mut events = KvEvents::default();
        let mut first = fill(&mut pool, &[7], &mut events);
        let second = fill(&mut pool, &[7], &mut events);
        let mut found = Vec::new();
        pool.take_hits(&hashes(&[7]), 1, &mut found);
        assert_eq!(found, first);
        pool.release(&mut first);
        pool.release(&mut found);
        let mut rest: Vec<_> = (0..6).map(|_| pool.allocate(&mut events)).collect(); // evicts the first copy
        pool.take_hits(&hashes(&[7]), 1, &mut found);
        assert_eq!(found, second);
        pool.release(&mut rest);
    }

    #[test]
    fn a_reset_needs_all_blocks_free_and_keeps_their_order() {
        let mut pool = BlockPool::new(5, Eviction::Lineage);
        let mut events = KvEvents { enabled: true, ..KvEvents::default() };
        let mut held = fill(&mut pool, &[1, 2], &mut events);
        assert!(!pool.reset(&mut events));
        pool.release(&mut held);
        assert!(pool.reset(&mut events));
        assert_eq!(pool.free_order(), [3, 4, 2, 1].map(BlockId));
        assert_eq!(pool.lookup(&hashes(&[1]), 1).blocks, 0);
    }
}
