//! `lru`: the order of release, which is vLLM's free queue.

use super::BlockId;
use super::blocks::Blocks;
use super::eviction::EvictionPolicy;
use super::queue::Queue;

/// Least recently released first.
#[derive(Clone, Debug)]
pub(super) struct Lru(Queue);

impl Lru {
    pub(super) fn new(blocks: u32) -> Self {
        Self(Queue::new(blocks))
    }
}

impl EvictionPolicy for Lru {
    #[inline]
    fn insert(&mut self, blocks: &mut Blocks, block: BlockId, _parent: Option<BlockId>) {
        self.0.push_back(blocks, block);
    }

    #[inline]
    fn remove(&mut self, blocks: &mut Blocks, block: BlockId) {
        self.0.remove(blocks, block);
    }

    #[inline]
    fn evict(&mut self, blocks: &mut Blocks) -> Option<BlockId> {
        let block = self.0.front(blocks)?;
        self.0.remove(blocks, block);
        Some(block)
    }

    fn count(&self) -> u32 {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_was_used_again_loses_its_place() {
        let mut blocks = Blocks::new(8);
        let mut lru = Lru::new(8);
        for block in [3, 2, 1] {
            lru.insert(&mut blocks, BlockId(block), None);
        }
        lru.remove(&mut blocks, BlockId(2)); // 3 1
        lru.insert(&mut blocks, BlockId(2), None); // 3 1 2
        let order: Vec<_> = std::iter::from_fn(|| lru.evict(&mut blocks)).map(|b| b.0).collect();
        assert_eq!(order, [3, 1, 2]);
        assert_eq!(lru.count(), 0);
    }
}
