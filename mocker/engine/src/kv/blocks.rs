//! The blocks themselves: one record of half a cache line each, since a pool of usual size does not fit the inner caches
//! and every block that is touched costs a fetch.

use std::ops::{Index, IndexMut};

use super::BlockId;

/// The flag of [`Block::holders`] that says that `hash` is valid.
const CACHED: u32 = 1 << 31;

/// One block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Its content, if it is cached.
    pub(super) hash: u64,
    /// Sequences that hold it, and [`CACHED`].
    holders: u32,
    /// Next block of the same content, in the order of their stores.
    pub(super) twin: BlockId,
    /// Neighbours in the policy's list.
    pub(super) prev: BlockId,
    pub(super) next: BlockId,
    /// The block before it in the sequence that released it last.
    pub(super) parent: BlockId,
    /// A number that the policy keeps.
    pub(super) tally: u32,
}

impl Block {
    const EMPTY: Self = Self {
        hash: 0,
        holders: 0,
        twin: BlockId::NONE,
        prev: BlockId::NONE,
        next: BlockId::NONE,
        parent: BlockId::NONE,
        tally: 0,
    };

    /// Sequences that hold it.
    pub(super) fn holders(&self) -> u32 {
        self.holders & !CACHED
    }

    /// It is full and can be found by its content.
    pub(super) fn is_cached(&self) -> bool {
        self.holders & CACHED != 0
    }

    pub(super) fn hold(&mut self) {
        self.holders += 1;
    }

    /// One holder fewer; the number that is left.
    pub(super) fn let_go(&mut self) -> u32 {
        debug_assert!(self.holders() > 0);
        self.holders -= 1;
        self.holders()
    }

    pub(super) fn cache(&mut self, hash: u64) {
        self.hash = hash;
        self.holders |= CACHED;
        self.twin = BlockId::NONE;
    }

    pub(super) fn uncache(&mut self) {
        self.holders &= !CACHED;
        self.twin = BlockId::NONE;
    }
}

/// All blocks of a pool.
#[derive(Clone, Debug)]
pub struct Blocks(Vec<Block>);

impl Blocks {
    pub(super) fn new(blocks: u32) -> Self {
        Self(vec![Block::EMPTY; blocks as usize])
    }

    pub(super) fn len(&self) -> u32 {
        self.0.len() as u32
    }
}

impl Index<BlockId> for Blocks {
    type Output = Block;
    #[inline]
    fn index(&self, block: BlockId) -> &Block {
        &self.0[block.index()]
    }
}

impl IndexMut<BlockId> for Blocks {
    #[inline]
    fn index_mut(&mut self, block: BlockId) -> &mut Block {
        &mut self.0[block.index()]
    }
}
