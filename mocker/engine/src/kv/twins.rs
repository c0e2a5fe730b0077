//! Blocks of equal content. vLLM does not merge them; a lookup finds the one stored first among those still cached.

use hashbrown::HashTable;

use super::BlockId;
use crate::hash::mix;

/// Chains of equal blocks in the order of their stores. They are few, so they are kept apart from the blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Twins(HashTable<(BlockId, BlockId)>);

impl Twins {
    /// `next` was stored right after `block`, which had no twin after it.
    pub(super) fn link(&mut self, block: BlockId, next: BlockId) {
        self.0.insert_unique(hash(block), (block, next), |&(block, _)| hash(block));
    }

    /// Forgets the block stored after `block`, and tells it.
    pub(super) fn unlink(&mut self, block: BlockId) -> Option<BlockId> {
        let entry = self.0.find_entry(hash(block), |&(other, _)| other == block).ok()?;
        Some(entry.remove().0.1)
    }

    /// The end of the chain from `block`.
    pub(super) fn last(&self, mut block: BlockId) -> BlockId {
        while let Some(next) = self.next(block) {
            block = next;
        }
        block
    }

    /// The block right before `block` in the chain from `first`.
    pub(super) fn before(&self, first: BlockId, block: BlockId) -> BlockId {
        let mut before = first;
        while let Some(next) = self.next(before).filter(|&next| next != block) {
            before = next;
        }
        before
    }

    fn next(&self, block: BlockId) -> Option<BlockId> {
        self.0.find(hash(block), |&(other, _)| other == block).map(|&(_, next)| next)
    }
}

fn hash(block: BlockId) -> u64 {
    mix(0, u64::from(block.0))
}
