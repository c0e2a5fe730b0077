//! Where the blocks of an index are, by block hash.

use std::collections::BTreeSet;

use hashbrown::HashTable;

use super::Slot;
use crate::tree::NodeId;

/// Where a block is. Its hash is in its run: what is here is small, since most of the time goes into fetching it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its run.
    pub(super) node: NodeId,
    /// Blocks before it.
    pub(super) depth: u32,
}

/// All blocks by their hash. The same hash may be at several places: under other tokens, or in runs that were lost.
#[derive(Debug, Default)]
pub(super) struct Places {
    table: HashTable<Place>,
    /// Places whose hash has another place too, one not counted.
    several: usize,
    /// Blocks that a rank covers without knowing their names. Empty as long as engines agree on block hashes.
    strange: BTreeSet<(Slot, NodeId, u32)>,
}

/// Block hashes are mixed well by engines, but may be small numbers in tests and traces.
#[inline]
fn spread(hash: u64) -> u64 {
    let wide = u128::from(hash) * 0x9E37_79B9_7F4A_7C15;
    (wide >> 64) as u64 ^ wide as u64
}

impl Places {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.table.allocation_size() + self.strange.len() * 32
    }

    /// No name is ambiguous and no rank has names of its own.
    #[inline]
    pub(super) fn plain(&self) -> bool {
        self.several == 0 && self.strange.is_empty()
    }

    /// All places of a hash. `name` tells the hash of a place, here and below.
    #[inline]
    pub(super) fn all(&self, hash: u64, name: impl Fn(&Place) -> u64) -> impl Iterator<Item = &Place> {
        self.table.iter_hash(spread(hash)).filter(move |place| name(place) == hash)
    }

    /// Blocks of a run, the first one at `depth`.
    pub(super) fn add(&mut self, node: NodeId, depth: u32, blocks: &[u64], name: impl Fn(&Place) -> u64) {
        let hasher = |place: &Place| spread(name(place));
        self.table.reserve(blocks.len(), hasher);
        for (depth, &hash) in (depth..).zip(blocks) {
            let place = Place { node, depth };
            match self.table.entry(spread(hash), |other| name(other) == hash, hasher) {
                hashbrown::hash_table::Entry::Vacant(entry) => drop(entry.insert(place)),
                hashbrown::hash_table::Entry::Occupied(_) => {
                    self.several += 1;
                    self.table.insert_unique(spread(hash), place, hasher);
                }
            }
        }
    }

    /// The blocks from `depth` on are in another run now.
    pub(super) fn rename(&mut self, from: NodeId, to: NodeId, depth: u32, blocks: &[u64]) {
        for (depth, &hash) in (depth..).zip(blocks) {
            let here = Place { node: from, depth };
            if let Some(place) = self.table.find_mut(spread(hash), |place| *place == here) {
                place.node = to;
            }
        }
        let end = depth + blocks.len() as u32;
        let moved: Vec<_> = self.strange.iter().copied().filter(|&(_, node, at)| node == from && at < end).collect();
        for (slot, node, at) in moved {
            self.strange.remove(&(slot, node, at));
            self.strange.insert((slot, to, at));
        }
    }

    /// The blocks from `depth` on are about to go.
    pub(super) fn remove(&mut self, node: NodeId, depth: u32, blocks: &[u64], name: impl Fn(&Place) -> u64) {
        for (depth, &hash) in (depth..).zip(blocks) {
            let here = Place { node, depth };
            if let Ok(entry) = self.table.find_entry(spread(hash), |place| *place == here) {
                entry.remove();
            }
            if self.several > 0 && self.table.find(spread(hash), |place| name(place) == hash).is_some() {
                self.several -= 1;
            }
        }
        if !self.strange.is_empty() {
            self.strange.retain(|&(_, at, deep)| at != node || deep < depth);
        }
    }

    /// Whether a rank covers a block without knowing its name.
    #[inline]
    pub(super) fn strange(&self, slot: Slot, node: NodeId, depth: u32) -> bool {
        !self.strange.is_empty() && self.strange.contains(&(slot, node, depth))
    }

    pub(super) fn estrange(&mut self, slot: Slot, node: NodeId, depth: u32) {
        self.strange.insert((slot, node, depth));
    }

    pub(super) fn befriend(&mut self, slot: Slot, node: NodeId, depth: u32) {
        self.strange.remove(&(slot, node, depth));
    }

    /// A rank no longer covers a run from `depth` on.
    pub(super) fn forget_strange(&mut self, slot: Slot, node: NodeId, depth: u32) {
        if !self.strange.is_empty() {
            self.strange.retain(|&(who, at, deep)| (who, at) != (slot, node) || deep < depth);
        }
    }

    /// A rank covers nothing any more.
    pub(super) fn forget_slot(&mut self, slot: Slot) {
        self.strange.retain(|&(who, ..)| who != slot);
    }
}
