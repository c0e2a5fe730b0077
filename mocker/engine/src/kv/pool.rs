//! The pool of blocks: who holds them, what they contain, which are free.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::BlockId;
use super::blocks::Blocks;
use super::eviction::{Eviction, EvictionPolicy, Policy};
use super::twins::Twins;
use crate::hash::BlockHashes;
use crate::pass::KvEvents;

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
    blocks: Blocks,
    /// Free blocks without content; taken from the end.
    clean: Vec<BlockId>,
    /// Free blocks with content.
    inactive: Policy,
    /// Content to the first block that was stored with it.
    table: HashTable<BlockId>,
    /// Blocks stored with content that was there already.
    twins: Twins,
    /// What the last lookup found.
    found: Vec<BlockId>,
}

impl BlockPool {
    /// A pool of `blocks`, the null block included (at least 2).
    pub fn new(blocks: u32, eviction: Eviction) -> Self {
        Self {
            blocks: Blocks::new(blocks),
            clean: (1..blocks).rev().map(BlockId).collect(),
            inactive: Policy::new(eviction, blocks),
            table: HashTable::with_capacity(blocks as usize),
            twins: Twins::default(),
            found: Vec::new(),
        }
    }

    /// Blocks that can be handed out in all.
    pub fn usable(&self) -> u32 {
        self.blocks.len() - 1
    }

    /// Blocks that nobody holds.
    pub fn free(&self) -> u32 {
        self.clean.len() as u32 + self.inactive.count()
    }

    /// Free blocks whose handing out evicts nothing.
    pub fn clean(&self) -> u32 {
        self.clean.len() as u32
    }

    /// The longest cached prefix among the first `limit` blocks of a sequence. Changes nothing but what
    /// [`BlockPool::take_hits`] would take.
    pub fn lookup(&mut self, hashes: &BlockHashes, limit: u32) -> Hit {
        self.found.clear();
        let mut inactive = 0;
        for index in 0..limit {
            let Some(block) = self.find(hashes.get(index as usize)) else { break };
            self.found.push(block);
            inactive += u32::from(self.blocks[block].holders() == 0);
        }
        Hit { blocks: self.found.len() as u32, inactive }
    }

    /// Takes the blocks that the last [`BlockPool::lookup`] has found; nothing else may have happened since.
    pub fn take_hits(&mut self, into: &mut Vec<BlockId>) {
        for &block in &self.found {
            if self.blocks[block].holders() == 0 {
                self.inactive.remove(&mut self.blocks, block);
            }
            self.blocks[block].hold();
            self.inactive.touch(self.blocks[block].hash);
        }
        into.append(&mut self.found);
    }

    /// Hands out blocks without content, evicting if there are no others. The caller has checked [`BlockPool::free`].
    pub fn allocate(&mut self, count: u32, into: &mut Vec<BlockId>, events: &mut KvEvents) {
        let clean = self.clean.len().saturating_sub(count as usize);
        let evict = count as usize - (self.clean.len() - clean);
        let first = into.len();
        into.extend(self.clean.drain(clean..).rev());
        // Two short loops: what they read from memory does not wait for the block before.
        let evicted = into.len();
        for _ in 0..evict {
            into.push(self.inactive.evict(&mut self.blocks).expect("the caller checked that so many blocks are free"));
        }
        for &block in &into[evicted..] {
            events.removed(std::iter::once(self.blocks[block].hash));
            self.forget(block);
        }
        for &block in &into[first..] {
            self.blocks[block].hold();
        }
    }

    /// A held block is full: it can be found from now on.
    pub fn store(&mut self, block: BlockId, hash: u64) {
        debug_assert!(self.blocks[block].holders() > 0 && !self.blocks[block].is_cached());
        let blocks = &self.blocks;
        match self.table.entry(hash, |&other| blocks[other].hash == hash, |&other| blocks[other].hash) {
            Entry::Vacant(place) => {
                place.insert(block);
            }
            Entry::Occupied(first) => {
                self.twins.push(*first.get(), block);
                self.blocks[*first.get()].set_twin(true);
                self.blocks[block].set_twin(true);
            }
        }
        self.blocks[block].cache(hash);
        self.inactive.touch(hash);
    }

    /// A sequence lets go of its blocks, deepest first; clears `blocks`.
    ///
    /// Blocks without content become the next to be handed out (the deepest first of all), as in vLLM's free queue.
    pub fn release(&mut self, blocks: &mut Vec<BlockId>) {
        for index in (0..blocks.len()).rev() {
            let block = blocks[index];
            let entry = &mut self.blocks[block];
            if entry.let_go() == 0 && entry.is_cached() {
                let parent = index.checked_sub(1).map(|before| blocks[before]);
                self.inactive.insert(&mut self.blocks, block, parent);
            }
        }
        let free = |block: &&BlockId| self.blocks[**block].holders() == 0 && !self.blocks[**block].is_cached();
        self.clean.extend(blocks.iter().filter(free));
        blocks.clear();
    }

    /// Forgets all content. False, and no change, if a block is held.
    pub fn reset(&mut self, events: &mut KvEvents) -> bool {
        if self.free() < self.usable() {
            return false;
        }
        let mut order = Vec::with_capacity(self.inactive.count() as usize);
        while let Some(block) = self.inactive.evict(&mut self.blocks) {
            self.forget(block);
            order.push(block);
        }
        // Former content is handed out after what was clean, in the order in which it would have been evicted.
        self.clean.splice(0..0, order.into_iter().rev());
        events.cleared();
        true
    }

    /// All free blocks, the next one to be handed out first. For tests and dumps.
    pub fn free_order(&self) -> Vec<BlockId> {
        let (mut inactive, mut blocks) = (self.inactive.clone(), self.blocks.clone());
        let mut order: Vec<_> = self.clean.iter().rev().copied().collect();
        order.extend(std::iter::from_fn(|| inactive.evict(&mut blocks)));
        order
    }

    /// How many sequences hold a block.
    pub fn holders(&self, block: BlockId) -> u32 {
        self.blocks[block].holders()
    }

    fn find(&self, hash: u64) -> Option<BlockId> {
        self.table.find(hash, |&block| self.blocks[block].hash == hash).copied()
    }

    /// Drops the content of a free block that the policy has let go.
    fn forget(&mut self, block: BlockId) {
        let hash = self.blocks[block].hash;
        let blocks = &self.blocks;
        let entry = self.table.find_entry(hash, |&other| blocks[other].hash == hash);
        let mut entry = entry.expect("cached blocks are in the table");
        if self.blocks[block].has_twin() {
            let (after, alone) = self.twins.remove(block);
            self.blocks[after].set_twin(!alone);
            if *entry.get() == block {
                *entry.get_mut() = after;
            }
        } else {
            entry.remove();
        }
        self.blocks[block].uncache();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(known: &[u64]) -> BlockHashes {
        BlockHashes { known: known.to_vec(), salt: 0 }
    }

    fn allocate(pool: &mut BlockPool, count: u32, events: &mut KvEvents) -> Vec<BlockId> {
        let mut blocks = Vec::new();
        pool.allocate(count, &mut blocks, events);
        blocks
    }

    fn fill(pool: &mut BlockPool, known: &[u64], events: &mut KvEvents) -> Vec<BlockId> {
        known
            .iter()
            .map(|&hash| {
                let block = allocate(pool, 1, events)[0];
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
        assert_eq!(allocate(&mut pool, 2, &mut events), [4, 3].map(BlockId));
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
        pool.lookup(&hashes(&[7]), 1);
        pool.take_hits(&mut found);
        assert_eq!(found, first);
        pool.release(&mut first);
        pool.release(&mut found);
        let mut rest = allocate(&mut pool, 6, &mut events); // evicts the first copy
        pool.lookup(&hashes(&[7]), 1);
        pool.take_hits(&mut found);
        assert_eq!(found, second);
        pool.release(&mut rest);
    }

    #[test]
    fn equal_blocks_may_be_evicted_in_any_order() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut pool = BlockPool::new(4, Eviction::Lru);
            let mut events = KvEvents::default();
            let blocks = fill(&mut pool, &[7, 7, 7], &mut events);
            for at in order {
                pool.release(&mut vec![blocks[at]]);
            }
            let mut left = vec![0, 1, 2];
            for at in order {
                assert_eq!(pool.find(7), Some(blocks[left[0]]), "{order:?}: the first stored of {left:?}");
                assert_eq!(allocate(&mut pool, 1, &mut events), [blocks[at]]);
                left.retain(|&other| other != at);
            }
            assert_eq!(pool.find(7), None, "{order:?}");
            assert!(blocks.iter().all(|&block| !pool.blocks[block].has_twin()), "{order:?}");
        }
    }

    /// A prompt that everybody sends fills the pool with copies of its last block: each is stored and evicted at the cost
    /// of one, or this would take minutes.
    #[test]
    fn a_pool_of_equal_blocks_is_as_fast_as_any() {
        let count = 300_000;
        let mut pool = BlockPool::new(count, Eviction::Lineage);
        let mut events = KvEvents::default();
        for _ in 0..2 * count {
            let mut block = fill(&mut pool, &[7], &mut events);
            pool.release(&mut block);
        }
        assert_eq!(pool.lookup(&hashes(&[7]), 1), Hit { blocks: 1, inactive: 1 });
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
