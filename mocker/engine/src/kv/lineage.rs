//! `lineage`: the order of release, but a block stays as long as a continuation of it is inactive too.
//!
//! Requests release their blocks deepest first, so the oldest block nearly always is a leaf already and the search
//! ends at once. It goes on only where equal blocks exist twice (vLLM does not merge them) and a later request released
//! the continuation of the one it did not hold.

use super::BlockId;
use super::blocks::Blocks;
use super::eviction::EvictionPolicy;
use super::list::List;

/// Oldest leaf first. A block's tally is the number of inactive blocks that name it as their parent.
#[derive(Clone, Debug)]
pub(super) struct Lineage(List);

impl Lineage {
    pub(super) fn new() -> Self {
        Self(List::EMPTY)
    }
}

impl EvictionPolicy for Lineage {
    #[inline]
    fn insert(&mut self, blocks: &mut Blocks, block: BlockId) {
        self.0.push_back(blocks, block);
        if let Some(parent) = blocks[block].parent.some() {
            blocks[parent].tally += 1;
        }
    }

    #[inline]
    fn remove(&mut self, blocks: &mut Blocks, block: BlockId) {
        self.0.remove(blocks, block);
        if let Some(parent) = blocks[block].parent.some() {
            blocks[parent].tally -= 1;
        }
    }

    #[inline]
    fn evict(&mut self, blocks: &mut Blocks) -> Option<BlockId> {
        let mut block = self.0.front()?;
        while blocks[block].tally > 0 {
            // Some block is a leaf: following children from any block ends.
            block = blocks[block].next.some()?;
        }
        self.remove(blocks, block);
        Some(block)
    }

    fn count(&self) -> u32 {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        blocks: Blocks,
        lineage: Lineage,
    }

    impl Fixture {
        /// Inserts (block, parent) pairs; parent 0 is none.
        fn new(inserted: &[(u32, u32)]) -> Self {
            let mut fixture = Self { blocks: Blocks::new(8), lineage: Lineage::new() };
            for &(block, parent) in inserted {
                fixture.blocks[BlockId(block)].parent = if parent == 0 { BlockId::NONE } else { BlockId(parent) };
                fixture.lineage.insert(&mut fixture.blocks, BlockId(block));
            }
            fixture
        }

        fn evicted(&mut self) -> Vec<u32> {
            std::iter::from_fn(|| self.lineage.evict(&mut self.blocks)).map(|b| b.0).collect()
        }
    }

    #[test]
    fn a_parent_outlives_its_inactive_children() {
        let mut released_after_its_parent = Fixture::new(&[(1, 0), (2, 1), (3, 0)]);
        assert_eq!(released_after_its_parent.evicted(), [2, 1, 3]);
    }

    #[test]
    fn a_chain_released_deepest_first_goes_in_that_order() {
        assert_eq!(Fixture::new(&[(3, 2), (2, 1), (1, 0)]).evicted(), [3, 2, 1]);
    }

    #[test]
    fn a_child_in_use_does_not_hold_its_parent() {
        let mut fixture = Fixture::new(&[(1, 0), (2, 1)]);
        fixture.lineage.remove(&mut fixture.blocks, BlockId(2));
        assert_eq!(fixture.evicted(), [1]);
    }
}
