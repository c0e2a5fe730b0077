//! Blocks of equal content. vLLM does not merge them; a lookup finds the one stored first among those still cached.

use hashbrown::HashTable;

use super::BlockId;
use crate::hash::mix;

/// Rings of equal blocks in the order of their stores. Only blocks that have an equal are in one, and they are kept apart
/// from the blocks: usually they are few, but a prompt that all requests share can have thousands.
#[derive(Clone, Debug, Default)]
pub(super) struct Twins(HashTable<Link>);

#[derive(Clone, Copy, Debug)]
struct Link {
    block: BlockId,
    before: BlockId,
    after: BlockId,
}

impl Twins {
    /// `block` is the newest equal of `first`, which is alone or the first of a ring.
    pub(super) fn push(&mut self, first: BlockId, block: BlockId) {
        let last = if let Some(link) = self.find(first) {
            std::mem::replace(&mut link.before, block)
        } else {
            self.insert(Link { block: first, before: block, after: block });
            first
        };
        self.get(last).after = block;
        self.insert(Link { block, before: last, after: first });
    }

    /// Takes `block` out of its ring. What comes back is the block after it, and whether that one is alone now.
    pub(super) fn remove(&mut self, block: BlockId) -> (BlockId, bool) {
        let Link { before, after, .. } = self.take(block);
        if before == after {
            self.take(after);
            return (after, true);
        }
        self.get(before).after = after;
        self.get(after).before = before;
        (after, false)
    }

    fn insert(&mut self, link: Link) {
        self.0.insert_unique(hash(link.block), link, |link| hash(link.block));
    }

    fn find(&mut self, block: BlockId) -> Option<&mut Link> {
        self.0.find_mut(hash(block), |link| link.block == block)
    }

    fn get(&mut self, block: BlockId) -> &mut Link {
        self.find(block).expect("a block with an equal is in a ring")
    }

    fn take(&mut self, block: BlockId) -> Link {
        let entry = self.0.find_entry(hash(block), |link| link.block == block);
        entry.expect("a block with an equal is in a ring").remove().0
    }
}

fn hash(block: BlockId) -> u64 {
    mix(0, u64::from(block.0))
}
