//! Doubly linked lists threaded through one array of links, so that leaving from the middle costs the same as leaving
//! from an end. A block is in at most one list at a time.

use super::BlockId;

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: BlockId,
    next: BlockId,
}

/// The links of all blocks.
#[derive(Clone, Debug)]
pub(super) struct Links(Vec<Link>);

/// The ends of one list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    front: BlockId,
    back: BlockId,
    len: u32,
}

impl Links {
    pub(super) fn new(blocks: u32) -> Self {
        Self(vec![Link { prev: BlockId::NONE, next: BlockId::NONE }; blocks as usize])
    }

    pub(super) fn next(&self, block: BlockId) -> Option<BlockId> {
        some(self.0[block.index()].next)
    }
}

impl List {
    pub(super) const EMPTY: Self = Self { front: BlockId::NONE, back: BlockId::NONE, len: 0 };

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn front(&self) -> Option<BlockId> {
        some(self.front)
    }

    pub(super) fn push_back(&mut self, links: &mut Links, block: BlockId) {
        links.0[block.index()] = Link { prev: self.back, next: BlockId::NONE };
        match some(self.back) {
            Some(back) => links.0[back.index()].next = block,
            None => self.front = block,
        }
        self.back = block;
        self.len += 1;
    }

    /// The caller guarantees that `block` is in this list.
    pub(super) fn remove(&mut self, links: &mut Links, block: BlockId) {
        let Link { prev, next } = links.0[block.index()];
        match some(prev) {
            Some(prev) => links.0[prev.index()].next = next,
            None => self.front = next,
        }
        match some(next) {
            Some(next) => links.0[next.index()].prev = prev,
            None => self.back = prev,
        }
        self.len -= 1;
    }
}

fn some(block: BlockId) -> Option<BlockId> {
    (block != BlockId::NONE).then_some(block)
}
