//! `lineage`: the order of release, but a block stays as long as a continuation of it is inactive too.
//!
//! Requests release their blocks deepest first, so the oldest block nearly always is a leaf already and the search
//! ends at once. It goes on only where equal blocks exist twice (vLLM does not merge them) and a later request released
//! the continuation of the one it did not hold.

use super::BlockId;
use super::eviction::EvictionPolicy;
use super::list::{Links, List};

/// Oldest leaf first.
#[derive(Clone, Debug)]
pub(super) struct Lineage {
    links: Links,
    list: List,
    /// Per block: the parent it was inserted with.
    parents: Vec<BlockId>,
    /// Per block: how many inactive blocks name it as their parent.
    children: Vec<u32>,
}

impl Lineage {
    pub(super) fn new(blocks: u32) -> Self {
        Self {
            links: Links::new(blocks),
            list: List::EMPTY,
            parents: vec![BlockId::NONE; blocks as usize],
            children: vec![0; blocks as usize],
        }
    }
}

impl EvictionPolicy for Lineage {
    fn insert(&mut self, block: BlockId, _hash: u64, parent: Option<BlockId>) {
        self.list.push_back(&mut self.links, block);
        self.parents[block.index()] = parent.unwrap_or(BlockId::NONE);
        if let Some(parent) = parent {
            self.children[parent.index()] += 1;
        }
    }

    fn remove(&mut self, block: BlockId) {
        self.list.remove(&mut self.links, block);
        let parent = self.parents[block.index()];
        if parent != BlockId::NONE {
            self.children[parent.index()] -= 1;
        }
    }

    fn evict(&mut self) -> Option<BlockId> {
        let mut block = self.list.front()?;
        while self.children[block.index()] > 0 {
            // Some block is a leaf: following children from any block ends.
            block = self.links.next(block)?;
        }
        self.remove(block);
        Some(block)
    }

    fn count(&self) -> u32 {
        self.list.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evicted(policy: &mut Lineage) -> Vec<u32> {
        std::iter::from_fn(|| policy.evict()).map(|b| b.0).collect()
    }

    #[test]
    fn a_parent_outlives_its_inactive_children() {
        let mut lineage = Lineage::new(8);
        lineage.insert(BlockId(1), 0, None);
        lineage.insert(BlockId(2), 0, Some(BlockId(1))); // released later than its parent
        lineage.insert(BlockId(3), 0, None);
        assert_eq!(evicted(&mut lineage), [2, 1, 3]);
    }

    #[test]
    fn a_chain_released_deepest_first_goes_in_that_order() {
        let mut lineage = Lineage::new(8);
        lineage.insert(BlockId(3), 0, Some(BlockId(2)));
        lineage.insert(BlockId(2), 0, Some(BlockId(1)));
        lineage.insert(BlockId(1), 0, None);
        assert_eq!(evicted(&mut lineage), [3, 2, 1]);
    }

    #[test]
    fn a_child_in_use_does_not_hold_its_parent() {
        let mut lineage = Lineage::new(8);
        lineage.insert(BlockId(1), 0, None);
        lineage.insert(BlockId(2), 0, Some(BlockId(1)));
        lineage.remove(BlockId(2));
        assert_eq!(evicted(&mut lineage), [1]);
    }
}
