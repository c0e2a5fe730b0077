//! What a lookup found.

use super::Slot;
use crate::tree::NodeId;

/// What a lookup found: used again for the next one, so that lookups allocate nothing.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Matched blocks by slot.
    pub(crate) blocks: Vec<u32>,
    /// Slots that are not zero.
    pub(crate) slots: Vec<Slot>,
    /// The runs that were walked.
    pub(super) path: Vec<NodeId>,
}

impl Found {
    /// Forgets what was found; `slots` is one past the highest slot.
    pub(crate) fn reset(&mut self, slots: usize) {
        for &slot in &self.slots {
            self.blocks[slot as usize] = 0;
        }
        self.slots.clear();
        self.path.clear();
        if self.blocks.len() < slots {
            self.blocks.resize(slots, 0);
        }
    }

    /// A rank covers `len` blocks from `start` on, and all before.
    #[inline]
    pub(crate) fn extend(&mut self, slot: Slot, start: u32, len: u32) {
        let blocks = &mut self.blocks[slot as usize];
        if *blocks == start {
            if start == 0 {
                self.slots.push(slot);
            }
            *blocks = start + len;
        }
    }
}
