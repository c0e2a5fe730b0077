//! The paged KV cache of vLLM and TensorRT-LLM engines.
//!
//! ```text
//!              allocate               store (full)            last holder leaves
//!   free ───────────────► partial ──────────────────► full ─────────────────────► inactive
//!    ▲                       │                          ▲                            │  │
//!    └── last holder leaves ─┘                          └──────── hit again ─────────┘  │
//!    ▲                                                                                  │
//!    └───────────────────────────── evicted (policy) ───────────────────────────────────┘
//! ```
//!
//! A lookup ends as an *active hit* (somebody holds the block), an *inactive hit* (it was waiting for eviction), or not
//! at all, and then the block becomes a *new store* once it is full. Only a new store emits `stored`, only an eviction
//! emits `removed`.
//!
//! Block 0 is vLLM's null block: it counts in the pool's size and is never handed out.

mod blocks;
mod eviction;
mod lineage;
mod lru;
mod multi_lru;
mod pool;
mod queue;
mod sketch;
mod twins;

pub use blocks::{Block, Blocks};
pub use eviction::{Eviction, EvictionPolicy};
pub use pool::{BlockPool, Hit};

/// A block of the pool: its number, as vLLM counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

impl BlockId {
    /// Stands for "no block" in arrays.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// The block, unless it stands for none.
    #[inline]
    pub(crate) fn some(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }

    /// As an index into per-block arrays.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
