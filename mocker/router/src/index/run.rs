//! A run of blocks and who holds it.

use super::Slot;

/// The part of a run that a rank holds, from the run's start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cover {
    /// The rank.
    pub(super) slot: Slot,
    /// Blocks, at least one.
    pub(super) len: u32,
}

/// A run of blocks, without the tokens hashes that the tree keeps.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Block hashes of the run's blocks.
    pub(super) blocks: Vec<u64>,
    /// By slot, without empty ones.
    pub(super) covers: Vec<Cover>,
}

impl Run {
    /// Blocks that a rank holds.
    pub(super) fn cover(&self, slot: Slot) -> u32 {
        self.covers.binary_search_by_key(&slot, |cover| cover.slot).map_or(0, |at| self.covers[at].len)
    }

    /// Covers at least `len` blocks; says how many it were.
    pub(super) fn extend(&mut self, slot: Slot, len: u32) -> u32 {
        match self.covers.binary_search_by_key(&slot, |cover| cover.slot) {
            Ok(at) => {
                let old = self.covers[at].len;
                self.covers[at].len = old.max(len);
                old
            }
            Err(at) => {
                self.covers.insert(at, Cover { slot, len });
                0
            }
        }
    }

    /// Covers at most `len` blocks; says whether that is less than before.
    pub(super) fn cut(&mut self, slot: Slot, len: u32) -> bool {
        let Ok(at) = self.covers.binary_search_by_key(&slot, |cover| cover.slot) else { return false };
        if self.covers[at].len <= len {
            return false;
        }
        match len {
            0 => drop(self.covers.remove(at)),
            _ => self.covers[at].len = len,
        }
        true
    }

    /// Blocks that anybody holds.
    pub(super) fn longest(&self) -> u32 {
        self.covers.iter().map(|cover| cover.len).max().unwrap_or(0)
    }
}
