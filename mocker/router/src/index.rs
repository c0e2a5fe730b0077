//! The prefix index: which rank holds which blocks of a prompt.
//!
//! Prompts are matched by tokens hashes, from the start; events name blocks by block hashes. A run of blocks is one node,
//! and each rank covers a part of it from the run's start. So the cost of a lookup hangs on the number of runs along the
//! prompt and of ranks in them, not on the number of blocks in the index.
//!
//! The rules are those of the `RadixTree` of Dynamo 1.6.1. As long as a rank holds whole prefixes they say: a rank holds
//! what it has stored and not removed. Beyond that:
//!
//! - Removing a block forgets the rank's later blocks of the same run; those in later runs stay known, and match again when
//!   the gap is filled. If no rank covers a run to its end, the runs after it can't be matched any more, yet may be removed.
//! - A leaf grows by appended blocks. A run is split where stored blocks leave it, or right after their parent.
//! - Blocks keep the names of whoever stored them first. A rank that calls them otherwise is matched, but can neither
//!   extend nor remove them.

mod found;
mod places;
mod run;

use crate::event::EventError;
use crate::tree::{NONE, NodeId, ROOT, Tree, common};
pub(crate) use found::Found;
use places::{Place, Places};
use run::{Cover, Run};

/// Number of a rank, dense and small.
pub(crate) type Slot = u32;

/// The size of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSize {
    /// Blocks known, each counted once however many ranks hold it.
    pub blocks: usize,
    /// Runs of blocks.
    pub runs: usize,
    /// Bytes of memory.
    pub bytes: usize,
}

/// A block of the index, as its parent's hash, its own, and that of its tokens.
pub type HeldBlock = (Option<u64>, u64, u64);

/// The block hash at a place.
#[inline]
fn name(tree: &Tree<Run>, place: Place) -> u64 {
    let node = tree.node(place.node);
    node.data.blocks[(place.depth - node.start) as usize]
}

/// The prefix index of one model.
#[derive(Debug, Default)]
pub(crate) struct Index {
    tree: Tree<Run>,
    places: Places,
    removing: Vec<(NodeId, u32)>,
    repeats: Vec<u64>,
    /// Blocks after the last tidying, for when to do it again.
    tidied: usize,
}

impl Index {
    /// Finds how many blocks of a prompt each rank holds, from the start.
    pub(crate) fn find(&self, tokens: &[u64], found: &mut Found) {
        let (mut node, mut at) = (ROOT, 0);
        while at < tokens.len() {
            let Some(child) = self.tree.child(node, tokens[at]) else { break };
            let run = self.tree.node(child);
            let len = common(&run.hashes, &tokens[at..]);
            for cover in &run.data.covers {
                found.extend(cover.slot, at as u32, cover.len.min(len as u32));
            }
            found.path.push(child);
            at += len;
            if len < run.hashes.len() {
                break;
            }
            node = child;
        }
    }

    /// Block hash of the block `depth` of the prompt last looked up.
    pub(crate) fn block_at(&self, found: &Found, depth: u32) -> Option<u64> {
        let at = found.path.partition_point(|&node| self.tree.node(node).start <= depth);
        let node = self.tree.node(*found.path.get(at.checked_sub(1)?)?);
        node.data.blocks.get((depth - node.start) as usize).copied()
    }

    /// Blocks were stored.
    pub(crate) fn stored(
        &mut self,
        slot: Slot,
        parent: Option<u64>,
        tokens: &[u64],
        blocks: &[u64],
    ) -> Result<(), EventError> {
        let own_parent = parent.is_some_and(|parent| blocks.contains(&parent));
        if tokens.len() != blocks.len() || own_parent || self.repeated(blocks) {
            return Err(EventError::InvalidSequence);
        }
        let mut node = ROOT;
        let mut at = 0;
        if let Some(parent) = parent {
            let place = self.known(slot, parent).ok_or(EventError::ParentNotFound)?;
            node = place.node;
            at = (place.depth - self.tree.node(node).start) as usize + 1;
        }
        if blocks.is_empty() {
            return Ok(());
        }
        self.tidy_if_large();
        let run = self.tree.node(node);
        if at < run.hashes.len() {
            let rest = run.hashes.len() - at;
            let len = common(&run.hashes[at..], tokens);
            if len == tokens.len() || (len == rest && run.first_child == NONE) {
                self.grow(node, &tokens[len..], &blocks[len..]);
                self.hold(slot, node, at, blocks);
                return Ok(());
            }
            node = self.split(node, at);
        }
        self.walk(slot, node, tokens, blocks);
        Ok(())
    }

    /// Stores blocks after the end of a run.
    fn walk(&mut self, slot: Slot, mut node: NodeId, mut tokens: &[u64], mut blocks: &[u64]) {
        while let Some(&first) = tokens.first() {
            let Some(mut child) = self.tree.child(node, first) else {
                let at = self.tree.node(node).hashes.len();
                if node != ROOT && self.tree.node(node).first_child == NONE {
                    self.grow(node, tokens, blocks);
                    self.hold(slot, node, at, blocks);
                } else {
                    let run = Run { blocks: blocks.to_vec(), covers: Vec::with_capacity(1) };
                    let child = self.tree.add(node, tokens.to_vec(), run);
                    self.places.add(child, self.tree.node(child).start, blocks, |place| name(&self.tree, *place));
                    self.hold(slot, child, 0, blocks);
                }
                return;
            };
            let len = common(&self.tree.node(child).hashes, tokens);
            if len < tokens.len() && len < self.tree.node(child).hashes.len() {
                child = self.split(child, len);
            }
            self.hold(slot, child, 0, &blocks[..len]);
            (node, tokens, blocks) = (child, &tokens[len..], &blocks[len..]);
        }
    }

    /// Blocks were removed.
    pub(crate) fn removed(&mut self, slot: Slot, blocks: &[u64]) -> Result<(), EventError> {
        let mut removing = std::mem::take(&mut self.removing);
        // All are looked up first: removing one forgets others, which the same event may name.
        let all = self.resolve(slot, blocks, &mut removing);
        for (node, depth) in removing.drain(..) {
            let run = self.tree.node_mut(node);
            // A node that is gone covers nothing.
            let len = depth.saturating_sub(run.start);
            if run.data.cut(slot, len) {
                self.places.forget_strange(slot, node, depth);
                self.settle(node);
            }
        }
        self.removing = removing;
        if all { Ok(()) } else { Err(EventError::BlockNotFound) }
    }

    /// The runs of blocks, each with the first block that goes; says whether all are known.
    fn resolve(&self, slot: Slot, blocks: &[u64], out: &mut Vec<(NodeId, u32)>) -> bool {
        let mut all = true;
        let mut last = None;
        for &hash in blocks {
            // Engines mostly remove neighbours, last ones first: those need no look into the table.
            let place = last.and_then(|last| self.neighbour(slot, last, hash)).or_else(|| self.known(slot, hash));
            let Some(Place { node, depth }) = place else {
                all = false;
                continue;
            };
            last = place;
            match out.last_mut() {
                Some((same, first)) if *same == node => *first = depth.min(*first),
                _ => out.push((node, depth)),
            }
        }
        all
    }

    /// The place of a block if it is next to another one that the rank holds.
    fn neighbour(&self, slot: Slot, of: Place, hash: u64) -> Option<Place> {
        let node = self.tree.node(of.node);
        let at = (of.depth - node.start) as usize;
        let is = |at: usize| node.data.blocks.get(at) == Some(&hash);
        let at = if at > 0 && is(at - 1) {
            at - 1
        } else if is(at + 1) && (at as u32 + 1) < node.data.cover(slot) {
            at + 1
        } else {
            return None;
        };
        let depth = node.start + at as u32;
        self.places.plain().then_some(Place { node: of.node, depth })
    }

    /// All blocks of a rank are gone.
    pub(crate) fn cleared(&mut self, slot: Slot) {
        for node in 1..self.tree.bound() {
            if self.tree.node_mut(node).data.cut(slot, 0) {
                self.settle(node);
            }
        }
        self.places.forget_slot(slot);
    }

    /// The place of a block that a rank holds and knows under this name.
    fn known(&self, slot: Slot, hash: u64) -> Option<Place> {
        self.places.all(hash, |place| name(&self.tree, *place)).copied().find(|place| {
            let node = self.tree.node(place.node);
            place.depth - node.start < node.data.cover(slot) && !self.places.strange(slot, place.node, place.depth)
        })
    }

    /// A rank holds blocks of a run from index `at` on; it calls them `blocks`.
    fn hold(&mut self, slot: Slot, node: NodeId, at: usize, blocks: &[u64]) {
        let run = self.tree.node_mut(node);
        let old = run.data.extend(slot, (at + blocks.len()) as u32) as usize;
        let start = run.start;
        let same = run.data.blocks[at..at + blocks.len()] == *blocks;
        if same && self.places.plain() {
            return;
        }
        for (index, &hash) in (at..).zip(blocks) {
            let depth = start + index as u32;
            if self.tree.node(node).data.blocks[index] == hash {
                self.places.befriend(slot, node, depth);
                self.forget_elsewhere(slot, hash, node);
            } else if index >= old {
                self.places.estrange(slot, node, depth);
            }
        }
    }

    /// A name means the block stored last.
    fn forget_elsewhere(&mut self, slot: Slot, hash: u64, here: NodeId) {
        let elsewhere = self.places.all(hash, |place| name(&self.tree, *place)).copied().find(|place| {
            let node = self.tree.node(place.node);
            let covered = place.depth - node.start < node.data.cover(slot);
            place.node != here && covered && !self.places.strange(slot, place.node, place.depth)
        });
        if let Some(place) = elsewhere {
            self.places.estrange(slot, place.node, place.depth);
        }
    }

    fn grow(&mut self, node: NodeId, tokens: &[u64], blocks: &[u64]) {
        let run = self.tree.node_mut(node);
        let depth = run.start + run.hashes.len() as u32;
        run.hashes.extend_from_slice(tokens);
        run.data.blocks.extend_from_slice(blocks);
        self.places.add(node, depth, blocks, |place| name(&self.tree, *place));
    }

    /// Splits a run; returns its first `len` blocks.
    fn split(&mut self, node: NodeId, len: usize) -> NodeId {
        let run = &mut self.tree.node_mut(node).data;
        let rest = run.blocks.split_off(len);
        let blocks = std::mem::replace(&mut run.blocks, rest);
        let len = len as u32;
        let covers = run.covers.iter().map(|cover| Cover { len: cover.len.min(len), ..*cover }).collect();
        run.covers.retain_mut(|cover| {
            cover.len = cover.len.saturating_sub(len);
            cover.len > 0
        });
        let start = self.tree.node(node).start;
        let head = self.tree.split(node, len as usize, Run { blocks, covers });
        self.places.rename(node, head, start, &self.tree.node(head).data.blocks);
        head
    }

    /// Drops what nobody can reach any more after a rank covers less of a run.
    fn settle(&mut self, node: NodeId) {
        let run = self.tree.node(node);
        let len = run.hashes.len() as u32;
        if run.data.covers.iter().any(|cover| cover.len == len) {
            return;
        }
        while self.tree.node(node).first_child != NONE {
            let child = self.tree.node(node).first_child;
            self.tree.detach(child);
            self.drop_if_bare(child);
        }
        self.drop_if_bare(node);
    }

    /// Frees a run that nobody holds. What comes after it has lost its connection before.
    fn drop_if_bare(&mut self, node: NodeId) {
        let run = self.tree.node(node);
        if run.data.covers.is_empty() && run.first_child == NONE {
            self.tree.detach(node);
            let run = self.tree.node(node);
            self.places.remove(node, run.start, &run.data.blocks, |place| name(&self.tree, *place));
            self.tree.release(node);
        }
    }

    /// Cuts off what nobody holds once it could be more than half of the index. Until then it stays, as in Dynamo.
    fn tidy_if_large(&mut self) {
        const SLACK: usize = 1 << 16;
        if self.places.len() < 2 * self.tidied + SLACK {
            return;
        }
        for node in 1..self.tree.bound() {
            let run = self.tree.node(node);
            let longest = run.data.longest() as usize;
            if longest == 0 {
                if self.tree.used(node) {
                    self.drop_if_bare(node);
                }
            } else if longest < run.hashes.len() && run.first_child == NONE {
                let start = run.start + longest as u32;
                self.places.remove(node, start, &run.data.blocks[longest..], |place| name(&self.tree, *place));
                let run = self.tree.node_mut(node);
                run.hashes.truncate(longest);
                run.data.blocks.truncate(longest);
            }
        }
        self.tidied = self.places.len();
    }

    /// Whether a hash is there twice.
    fn repeated(&mut self, blocks: &[u64]) -> bool {
        if blocks.len() < 2 {
            return false;
        }
        let bits = (blocks.len() * 2).next_power_of_two().trailing_zeros();
        let mask = (1usize << bits) - 1;
        self.repeats.clear();
        self.repeats.resize(mask + 1, 0);
        // Zero marks free places of the table, so that hash is looked for apart.
        if blocks.iter().filter(|&&hash| hash == 0).count() > 1 {
            return true;
        }
        for &hash in blocks.iter().filter(|&&hash| hash != 0) {
            let mut at = (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits)) as usize;
            while self.repeats[at] != 0 {
                if self.repeats[at] == hash {
                    return true;
                }
                at = (at + 1) & mask;
            }
            self.repeats[at] = hash;
        }
        false
    }

    /// Blocks that a rank holds and that can be reached from the start, in no order.
    pub(crate) fn held(&self, slot: Slot) -> Vec<HeldBlock> {
        let mut held = Vec::new();
        let mut open = vec![ROOT];
        while let Some(id) = open.pop() {
            let node = self.tree.node(id);
            let above =
                if node.parent == NONE { None } else { self.tree.node(node.parent).data.blocks.last().copied() };
            for at in 0..node.data.cover(slot) as usize {
                let parent = if at == 0 { above } else { Some(node.data.blocks[at - 1]) };
                held.push((parent, node.data.blocks[at], node.hashes[at]));
            }
            let mut child = node.first_child;
            while child != NONE {
                open.push(child);
                child = self.tree.node(child).next;
            }
        }
        held
    }

    /// How large it is.
    pub(crate) fn size(&self) -> IndexSize {
        let runs = (1..self.tree.bound()).map(|id| &self.tree.node(id).data);
        let data: usize = runs.map(|run| run.blocks.capacity() * 8 + run.covers.capacity() * size_of::<Cover>()).sum();
        IndexSize {
            blocks: self.places.len(),
            runs: self.tree.len(),
            bytes: data + self.tree.bytes() + self.places.bytes(),
        }
    }
}
