//! The blocks themselves: records of 16 bytes, since a pool of usual size does not fit the inner caches and every block
//! that is touched costs a fetch. What is rarely needed is kept elsewhere.

use std::ops::{Index, IndexMut};

use super::BlockId;

/// The flag of [`Block::holders`] that says that `hash` is valid.
const CACHED: u32 = 1 << 31;
/// The flag of [`Block::holders`] that says that another block has the same content.
const TWIN: u32 = 1 << 30;

/// One block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Block {
    /// Its content, if it is cached.
    pub(super) hash: u64,
    /// Sequences that hold it, and flags.
    holders: u32,
    /// Number of its release in the policy's queue; 0 outside.
    pub(super) release: u32,
}

impl Block {
    /// Sequences that hold it.
    #[inline]
    pub(super) fn holders(&self) -> u32 {
        self.holders & !(CACHED | TWIN)
    }

    /// It is full and can be found by its content.
    #[inline]
    pub(super) fn is_cached(&self) -> bool {
        self.holders & CACHED != 0
    }

    /// Another block has the same content.
    #[inline]
    pub(super) fn has_twin(&self) -> bool {
        self.holders & TWIN != 0
    }

    pub(super) fn set_twin(&mut self, has: bool) {
        self.holders = if has { self.holders | TWIN } else { self.holders & !TWIN };
    }

    #[inline]
    pub(super) fn hold(&mut self) {
        self.holders += 1;
    }

    /// One holder fewer; the number that is left.
    #[inline]
    pub(super) fn let_go(&mut self) -> u32 {
        debug_assert!(self.holders() > 0);
        self.holders -= 1;
        self.holders()
    }

    #[inline]
    pub(super) fn cache(&mut self, hash: u64) {
        self.hash = hash;
        self.holders |= CACHED;
    }

    #[inline]
    pub(super) fn uncache(&mut self) {
        self.holders &= !(CACHED | TWIN);
    }
}

/// All blocks of a pool.
#[derive(Clone, Debug)]
pub struct Blocks(Vec<Block>);

impl Blocks {
    pub(super) fn new(blocks: u32) -> Self {
        Self(vec![Block::default(); blocks as usize])
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
