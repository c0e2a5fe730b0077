//! `multi_lru`: four levels by how often a block's content was used lately; the lowest level goes first, and within a
//! level the least recently released.

use super::BlockId;
use super::blocks::Blocks;
use super::eviction::EvictionPolicy;
use super::list::List;
use super::sketch::Sketch;

/// A block released with at least this many recent uses goes to the level one above.
const LEVEL_THRESHOLDS: [u8; LEVELS - 1] = [2, 4, 8];
const LEVELS: usize = 4;

/// Least frequently, then least recently used. A block's tally is its level.
#[derive(Clone, Debug)]
pub(super) struct MultiLru {
    levels: [List; LEVELS],
    sketch: Sketch,
}

impl MultiLru {
    pub(super) fn new(blocks: u32) -> Self {
        Self { levels: [List::EMPTY; LEVELS], sketch: Sketch::new(blocks) }
    }
}

impl EvictionPolicy for MultiLru {
    fn insert(&mut self, blocks: &mut Blocks, block: BlockId) {
        let uses = self.sketch.estimate(blocks[block].hash);
        let level = LEVEL_THRESHOLDS.iter().filter(|&&threshold| uses >= threshold).count();
        blocks[block].tally = level as u32;
        self.levels[level].push_back(blocks, block);
    }

    fn remove(&mut self, blocks: &mut Blocks, block: BlockId) {
        let level = blocks[block].tally as usize;
        self.levels[level].remove(blocks, block);
    }

    fn evict(&mut self, blocks: &mut Blocks) -> Option<BlockId> {
        let block = self.levels.iter().find_map(List::front)?;
        self.remove(blocks, block);
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
        let mut blocks = Blocks::new(64);
        let mut policy = MultiLru::new(64);
        for (block, uses) in [(1, 9), (2, 1), (3, 4), (4, 1), (5, 2)] {
            let hash = mix(0, u64::from(block));
            (0..uses).for_each(|_| policy.touch(hash));
            blocks[BlockId(block)].cache(hash);
            policy.insert(&mut blocks, BlockId(block));
        }
        let order: Vec<_> = std::iter::from_fn(|| policy.evict(&mut blocks)).map(|b| b.0).collect();
        assert_eq!(order, [2, 4, 5, 3, 1]);
    }
}
