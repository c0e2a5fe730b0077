//! `multi_lru`: four levels by how often a block's content was used lately; the lowest level goes first, and within a
//! level the least recently released.

use super::BlockId;
use super::blocks::Blocks;
use super::eviction::EvictionPolicy;
use super::queue::Queue;
use super::sketch::Sketch;

/// A block released with at least this many recent uses goes to the level one above.
const LEVEL_THRESHOLDS: [u8; LEVELS - 1] = [2, 4, 8];
const LEVELS: usize = 4;

/// Least frequently, then least recently used.
#[derive(Clone, Debug)]
pub(super) struct MultiLru {
    levels: [Queue; LEVELS],
    /// Per block: the level it was inserted into.
    level: Vec<u8>,
    sketch: Sketch,
}

impl MultiLru {
    pub(super) fn new(blocks: u32) -> Self {
        Self {
            levels: std::array::from_fn(|_| Queue::new(blocks)),
            level: vec![0; blocks as usize],
            sketch: Sketch::new(blocks),
        }
    }
}

impl EvictionPolicy for MultiLru {
    fn insert(&mut self, blocks: &mut Blocks, block: BlockId, _parent: Option<BlockId>) {
        let uses = self.sketch.estimate(blocks[block].hash);
        let level = LEVEL_THRESHOLDS.iter().filter(|&&threshold| uses >= threshold).count();
        self.level[block.index()] = level as u8;
        self.levels[level].push_back(blocks, block);
    }

    fn remove(&mut self, blocks: &mut Blocks, block: BlockId) {
        let level = usize::from(self.level[block.index()]);
        self.levels[level].remove(blocks, block);
    }

    fn evict(&mut self, blocks: &mut Blocks) -> Option<BlockId> {
        let block = self.levels.iter_mut().find_map(|level| level.front(blocks))?;
        self.remove(blocks, block);
        Some(block)
    }

    fn touch(&mut self, hash: u64) {
        self.sketch.add(hash);
    }

    fn count(&self) -> u32 {
        self.levels.iter().map(Queue::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix;

    #[test]
    fn content_used_often_outlives_content_used_once() {
        let mut blocks = Blocks::new(64);
        let mut policy = MultiLru::new(64);
        for (block, uses) in [(1, 9), (2, 1), (3, 4), (4, 1), (5, 2)] {
            let hash = mix(0, u64::from(block));
            (0..uses).for_each(|_| policy.touch(hash));
            blocks[BlockId(block)].cache(hash);
            policy.insert(&mut blocks, BlockId(block), None);
        }
        let order: Vec<_> = std::iter::from_fn(|| policy.evict(&mut blocks)).map(|b| b.0).collect();
        assert_eq!(order, [2, 4, 5, 3, 1]);
    }
}
