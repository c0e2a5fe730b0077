//! `multi_lru`: four levels by how often a block's content was used lately; the lowest level goes first, and within a
//! level the least recently released.

use super::BlockId;
use super::eviction::EvictionPolicy;
use super::list::{Links, List};
use super::sketch::Sketch;

/// A block released with at least this many recent uses goes to the level one above.
const LEVEL_THRESHOLDS: [u8; LEVELS - 1] = [2, 4, 8];
const LEVELS: usize = 4;

/// Least frequently, then least recently used.
#[derive(Clone, Debug)]
pub(super) struct MultiLru {
    links: Links,
    levels: [List; LEVELS],
    /// Per block: the level it was inserted into.
    level: Vec<u8>,
    sketch: Sketch,
}

impl MultiLru {
    pub(super) fn new(blocks: u32) -> Self {
        Self {
            links: Links::new(blocks),
            levels: [List::EMPTY; LEVELS],
            level: vec![0; blocks as usize],
            sketch: Sketch::new(blocks),
        }
    }
}

impl EvictionPolicy for MultiLru {
    fn insert(&mut self, block: BlockId, hash: u64, _parent: Option<BlockId>) {
        let uses = self.sketch.estimate(hash);
        let level = LEVEL_THRESHOLDS.iter().filter(|&&threshold| uses >= threshold).count();
        self.level[block.index()] = level as u8;
        self.levels[level].push_back(&mut self.links, block);
    }

    fn remove(&mut self, block: BlockId) {
        let level = usize::from(self.level[block.index()]);
        self.levels[level].remove(&mut self.links, block);
    }

    fn evict(&mut self) -> Option<BlockId> {
        let block = self.levels.iter().find_map(List::front)?;
        self.remove(block);
        Some(block)
    }

    fn touch(&mut self, hash: u64) {
        self.sketch.add(hash);
    }

    fn count(&self) -> u32 {
        self.levels.iter().map(List::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix;

    #[test]
    fn content_used_often_outlives_content_used_once() {
        let mut policy = MultiLru::new(64);
        for (block, uses) in [(1, 9), (2, 1), (3, 4), (4, 1), (5, 2)] {
            (0..uses).for_each(|_| policy.touch(mix(0, u64::from(block))));
            policy.insert(BlockId(block), mix(0, u64::from(block)), None);
        }
        let order: Vec<_> = std::iter::from_fn(|| policy.evict()).map(|b| b.0).collect();
        assert_eq!(order, [2, 4, 5, 3, 1]);
    }
}
