//! `lru`: the order of release, which is vLLM's free queue.

use super::BlockId;
use super::eviction::EvictionPolicy;
use super::list::{Links, List};

/// Least recently released first.
#[derive(Clone, Debug)]
pub(super) struct Lru {
    links: Links,
    list: List,
}

impl Lru {
    pub(super) fn new(blocks: u32) -> Self {
        Self { links: Links::new(blocks), list: List::EMPTY }
    }
}

impl EvictionPolicy for Lru {
    fn insert(&mut self, block: BlockId, _hash: u64, _parent: Option<BlockId>) {
        self.list.push_back(&mut self.links, block);
    }

    fn remove(&mut self, block: BlockId) {
        self.list.remove(&mut self.links, block);
    }

    fn evict(&mut self) -> Option<BlockId> {
        let block = self.list.front()?;
        self.list.remove(&mut self.links, block);
        Some(block)
    }

    fn count(&self) -> u32 {
        self.list.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_was_used_again_loses_its_place() {
        let mut lru = Lru::new(8);
        for block in [3, 2, 1] {
            lru.insert(BlockId(block), 0, None);
        }
        lru.remove(BlockId(2)); // 3 1
        lru.insert(BlockId(2), 0, None); // 3 1 2
        let order: Vec<_> = std::iter::from_fn(|| lru.evict()).map(|b| b.0).collect();
        assert_eq!(order, [3, 1, 2]);
        assert_eq!(lru.count(), 0);
    }
}
