//! Doubly linked lists threaded through the blocks, so that leaving from the middle costs the same as leaving from an
//! end. A block is in at most one list at a time.

use super::BlockId;
use super::blocks::Blocks;

/// The ends of one list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    front: BlockId,
    back: BlockId,
    len: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { front: BlockId::NONE, back: BlockId::NONE, len: 0 };

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn front(&self) -> Option<BlockId> {
        self.front.some()
    }

    #[inline]
    pub(super) fn push_back(&mut self, blocks: &mut Blocks, block: BlockId) {
        blocks[block].prev = self.back;
        blocks[block].next = BlockId::NONE;
        match self.back.some() {
            Some(back) => blocks[back].next = block,
            None => self.front = block,
        }
        self.back = block;
        self.len += 1;
    }

    /// The caller guarantees that `block` is in this list.
    #[inline]
    pub(super) fn remove(&mut self, blocks: &mut Blocks, block: BlockId) {
        let (prev, next) = (blocks[block].prev, blocks[block].next);
        match prev.some() {
            Some(prev) => blocks[prev].next = next,
            None => self.front = next,
        }
        match next.some() {
            Some(next) => blocks[next].prev = prev,
            None => self.back = prev,
        }
        self.len -= 1;
    }
}
