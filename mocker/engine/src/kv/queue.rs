//! Queues of inactive blocks in the order of their release.
//!
//! A queue is a log of releases. A block that is used again is not searched for: its record only loses the number of its
//! release, which makes the log's entry void. So joining and leaving touch no other block, and eviction reads the log
//! front to back; with links from block to block, each step would wait for the memory of the one before.

use std::collections::VecDeque;

use super::BlockId;
use super::blocks::Blocks;

/// A log is cleared of void entries when it is this many times longer than the pool.
const LENGTH_MAX_PER_BLOCK: usize = 4;

/// One release.
#[derive(Clone, Copy, Debug)]
struct Entry {
    block: BlockId,
    /// Number of the release, as the block has it while it stays.
    release: u32,
}

/// Blocks in the order of their release. A block is in at most one queue at a time.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    log: VecDeque<Entry>,
    log_length_max: usize,
    /// Entries that are not void.
    len: u32,
    /// Number of the last release. It may wrap: no entry is as old as that.
    releases: u32,
}

impl Queue {
    pub(super) fn new(blocks: u32) -> Self {
        let log_length_max = blocks as usize * LENGTH_MAX_PER_BLOCK;
        Self { log: VecDeque::with_capacity(log_length_max), log_length_max, len: 0, releases: 0 }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(super) fn push_back(&mut self, blocks: &mut Blocks, block: BlockId) {
        if self.log.len() == self.log_length_max {
            self.log.retain(|entry| blocks[entry.block].release == entry.release);
        }
        self.releases = self.releases.wrapping_add(1).max(1);
        blocks[block].release = self.releases;
        self.log.push_back(Entry { block, release: self.releases });
        self.len += 1;
    }

    /// The caller guarantees that `block` is in this queue.
    #[inline]
    pub(super) fn remove(&mut self, blocks: &mut Blocks, block: BlockId) {
        blocks[block].release = 0;
        self.len -= 1;
    }

    /// The first block, which stays.
    #[inline]
    pub(super) fn front(&mut self, blocks: &Blocks) -> Option<BlockId> {
        while let Some(entry) = self.log.front() {
            if blocks[entry.block].release == entry.release {
                return Some(entry.block);
            }
            self.log.pop_front();
        }
        None
    }

    /// The first block for which `wanted` holds, which stays.
    #[cold]
    pub(super) fn find(&self, blocks: &Blocks, wanted: impl Fn(BlockId) -> bool) -> Option<BlockId> {
        let valid = |entry: &&Entry| blocks[entry.block].release == entry.release;
        self.log.iter().filter(valid).map(|entry| entry.block).find(|&block| wanted(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn void_entries_do_not_pile_up() {
        let mut blocks = Blocks::new(4);
        let mut queue = Queue::new(4);
        for round in 0..1000 {
            let block = BlockId(1 + round % 3);
            if blocks[block].release != 0 {
                queue.remove(&mut blocks, block);
            }
            queue.push_back(&mut blocks, block);
            assert!(queue.log.len() <= 16);
        }
        assert_eq!(queue.len(), 3);
        assert_eq!(queue.front(&blocks), Some(BlockId(2)));
    }

    #[test]
    fn the_number_of_a_release_may_wrap() {
        let mut blocks = Blocks::new(4);
        let mut queue = Queue { releases: u32::MAX - 1, ..Queue::new(4) };
        for block in [1, 2, 3] {
            queue.push_back(&mut blocks, BlockId(block));
        }
        queue.remove(&mut blocks, BlockId(1));
        assert_eq!(queue.front(&blocks), Some(BlockId(2)));
    }
}
