//! `lineage`: the order of release, but a block stays as long as a continuation of it is inactive too.
//!
//! Requests release their blocks deepest first, so the oldest block nearly always is a leaf already and the search
//! ends at once. It goes on only where equal blocks exist twice (vLLM does not merge them) and a later request released
//! the continuation of the one it did not hold.

use super::BlockId;
use super::blocks::Blocks;
use super::eviction::EvictionPolicy;
use super::queue::Queue;

/// Where an inactive block stands among the others.
#[derive(Clone, Copy, Debug)]
struct Kin {
    /// The block before it in the sequence that released it last.
    parent: BlockId,
    /// Inactive blocks that name it as their parent.
    children: u32,
}

/// Oldest leaf first.
#[derive(Clone, Debug)]
pub(super) struct Lineage {
    queue: Queue,
    kin: Vec<Kin>,
}

impl Lineage {
    pub(super) fn new(blocks: u32) -> Self {
        let alone = Kin { parent: BlockId::NONE, children: 0 };
        Self { queue: Queue::new(blocks), kin: vec![alone; blocks as usize] }
    }
}

impl EvictionPolicy for Lineage {
    #[inline]
    fn insert(&mut self, blocks: &mut Blocks, block: BlockId, parent: Option<BlockId>) {
        self.queue.push_back(blocks, block);
        self.kin[block.index()].parent = parent.unwrap_or(BlockId::NONE);
        if let Some(parent) = parent {
            self.kin[parent.index()].children += 1;
        }
    }

    #[inline]
    fn remove(&mut self, blocks: &mut Blocks, block: BlockId) {
        self.queue.remove(blocks, block);
        if let Some(parent) = self.kin[block.index()].parent.some() {
            self.kin[parent.index()].children -= 1;
        }
    }

    #[inline]
    fn evict(&mut self, blocks: &mut Blocks) -> Option<BlockId> {
        let mut block = self.queue.front(blocks)?;
        if self.kin[block.index()].children > 0 {
            // Following children from any block ends: some block is a leaf.
            block = self.queue.find(blocks, |block| self.kin[block.index()].children == 0)?;
        }
        self.remove(blocks, block);
        Some(block)
    }

    fn count(&self) -> u32 {
        self.queue.len()
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
            let mut fixture = Self { blocks: Blocks::new(8), lineage: Lineage::new(8) };
            for &(block, parent) in inserted {
                let parent = (parent > 0).then_some(BlockId(parent));
                fixture.lineage.insert(&mut fixture.blocks, BlockId(block), parent);
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
