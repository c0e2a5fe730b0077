//! Which inactive block goes first.

use super::BlockId;
use super::blocks::Blocks;
use super::lineage::Lineage;
use super::lru::Lru;
use super::multi_lru::MultiLru;

/// The order of eviction among inactive blocks: cached, and held by nobody.
///
/// The pool guarantees that a block is inserted at most once, removed or evicted only while inside, and that the blocks
/// of one request are inserted deepest first.
pub trait EvictionPolicy {
    /// `block` lost its last holder. `parent` is the block before it in that holder's sequence.
    fn insert(&mut self, blocks: &mut Blocks, block: BlockId, parent: Option<BlockId>);

    /// `block` is used again.
    fn remove(&mut self, blocks: &mut Blocks, block: BlockId);

    /// Takes out the block to evict next.
    fn evict(&mut self, blocks: &mut Blocks) -> Option<BlockId>;

    /// A block of this hash was used (hit or stored); for policies that count.
    fn touch(&mut self, _hash: u64) {}

    /// Number of inactive blocks.
    fn count(&self) -> u32;
}

/// The policies that a user can choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// Least recently released, but never a block whose continuation is still cached.
    #[default]
    Lineage,
    /// Least recently released.
    Lru,
    /// Least recently released of the least frequently used level of four.
    MultiLru,
}

impl Eviction {
    /// As flags, configurations and reports spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lineage => "lineage",
            Self::Lru => "lru",
            Self::MultiLru => "multi_lru",
        }
    }
}

/// The chosen policy; an enum so that the calls inline.
#[derive(Clone, Debug)]
pub(super) enum Policy {
    Lineage(Lineage),
    Lru(Lru),
    MultiLru(MultiLru),
}

impl Policy {
    pub(super) fn new(kind: Eviction, blocks: u32) -> Self {
        match kind {
            Eviction::Lineage => Self::Lineage(Lineage::new(blocks)),
            Eviction::Lru => Self::Lru(Lru::new(blocks)),
            Eviction::MultiLru => Self::MultiLru(MultiLru::new(blocks)),
        }
    }
}

macro_rules! each {
    ($policy:expr, $inner:ident => $call:expr) => {
        match $policy {
            Policy::Lineage($inner) => $call,
            Policy::Lru($inner) => $call,
            Policy::MultiLru($inner) => $call,
        }
    };
}

impl EvictionPolicy for Policy {
    #[inline]
    fn insert(&mut self, blocks: &mut Blocks, block: BlockId, parent: Option<BlockId>) {
        each!(self, policy => policy.insert(blocks, block, parent));
    }

    #[inline]
    fn remove(&mut self, blocks: &mut Blocks, block: BlockId) {
        each!(self, policy => policy.remove(blocks, block));
    }

    #[inline]
    fn evict(&mut self, blocks: &mut Blocks) -> Option<BlockId> {
        each!(self, policy => policy.evict(blocks))
    }

    #[inline]
    fn touch(&mut self, hash: u64) {
        each!(self, policy => policy.touch(hash));
    }

    #[inline]
    fn count(&self) -> u32 {
        each!(self, policy => policy.count())
    }
}
