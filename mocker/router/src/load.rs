//! What each rank has to do: open requests, the KV blocks that they hold together, and prompt tokens not yet computed.
//!
//! Blocks are identified by their path from the start of the prompt, so requests with equal starts share blocks on a rank.
//! All open prompts are one tree for all ranks; a node's blocks are held by whole requests only, since a run is split
//! where a prompt ends.

mod prefill;

use dynosim_engine::Nanos;

use crate::index::{Found, Slot};
use crate::tree::{NONE, NodeId, ROOT, Tree, common};
pub use prefill::PrefillEstimator;
use prefill::Prefills;

/// The holders of a run on one rank.
#[derive(Clone, Copy, Debug)]
struct Held {
    slot: Slot,
    requests: u32,
    /// Of each of the run's blocks.
    weight: f64,
}

/// One rank's sums.
#[derive(Debug, Default)]
struct RankLoad {
    requests: u32,
    /// Sum of the weights of all blocks.
    blocks: f64,
    prefills: Prefills,
}

/// An open request.
#[derive(Debug)]
pub(crate) struct Booking {
    /// Where it is.
    pub(crate) slot: Slot,
    /// When it began.
    pub(crate) since: Nanos,
    /// The run that its prompt ends with.
    leaf: NodeId,
    /// Blocks that are never shared: output, and all of the prompt if reuse is not assumed.
    own: u32,
    /// Sum of their weights.
    own_weight: f64,
    /// Prompt tokens not yet computed.
    prefill: u32,
}

/// How blocks of equal content count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Once per rank.
    Shared,
    /// Once per request.
    Apart,
}

/// A rank's load at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LoadView {
    /// Open requests.
    pub requests: u32,
    /// KV blocks that they hold, equal ones counted once, rounded.
    pub blocks: u32,
    /// Prompt tokens booked and not yet computed.
    pub prefill_tokens: u64,
}

/// The loads of all ranks.
#[derive(Debug)]
pub(crate) struct Loads {
    tree: Tree<Vec<Held>>,
    ranks: Vec<RankLoad>,
    sharing: Sharing,
}

impl Loads {
    /// Without any rank.
    pub(crate) fn new(sharing: Sharing) -> Self {
        Self { tree: Tree::default(), ranks: Vec::new(), sharing }
    }

    /// Makes room for a rank; it is idle.
    pub(crate) fn open(&mut self, slot: Slot) {
        if self.ranks.len() <= slot as usize {
            self.ranks.resize_with(slot as usize + 1, RankLoad::default);
        }
        self.ranks[slot as usize] = RankLoad::default();
    }

    /// A rank's load.
    #[inline]
    pub(crate) fn view(&self, now: Nanos, slot: Slot) -> LoadView {
        let rank = &self.ranks[slot as usize];
        LoadView { requests: rank.requests, blocks: round(rank.blocks), prefill_tokens: rank.prefills.tokens(now) }
    }

    /// Prompt tokens of a rank that are not yet computed.
    #[inline]
    pub(crate) fn prefill_tokens(&self, now: Nanos, slot: Slot) -> u64 {
        self.ranks[slot as usize].prefills.tokens(now)
    }

    /// Finds how many of a prompt's blocks open requests of each rank hold already.
    pub(crate) fn find(&self, hashes: &[u64], found: &mut Found) {
        if self.sharing == Sharing::Apart {
            return;
        }
        let (mut node, mut at) = (ROOT, 0);
        while at < hashes.len() {
            let Some(child) = self.tree.child(node, hashes[at]) else { break };
            let run = self.tree.node(child);
            let len = common(&run.hashes, &hashes[at..]);
            for held in &run.data {
                found.extend(held.slot, at as u32, len as u32);
            }
            at += len;
            if len < run.hashes.len() {
                break;
            }
            node = child;
        }
    }

    /// A request begins: `prefill` prompt tokens are to be computed, which may take `expected`.
    pub(crate) fn book(
        &mut self,
        now: Nanos,
        (id, slot): (u64, Slot),
        hashes: &[u64],
        prefill: u32,
        expected: Option<Nanos>,
    ) -> Booking {
        let rank = &mut self.ranks[slot as usize];
        rank.requests += 1;
        rank.prefills.add(now, id, prefill, expected);
        let mut booking = Booking { slot, since: now, leaf: ROOT, own: 0, own_weight: 0.0, prefill };
        match self.sharing {
            Sharing::Shared => booking.leaf = self.enter(slot, hashes),
            Sharing::Apart => {
                booking.own = hashes.len() as u32;
                booking.own_weight = hashes.len() as f64;
                rank.blocks += booking.own_weight;
            }
        }
        booking
    }

    /// Enters a prompt; returns the run that it ends with.
    fn enter(&mut self, slot: Slot, mut hashes: &[u64]) -> NodeId {
        let mut node = ROOT;
        while let Some(&first) = hashes.first() {
            let Some(mut child) = self.tree.child(node, first) else {
                self.ranks[slot as usize].blocks += hashes.len() as f64;
                return self.tree.add(node, hashes.to_vec(), vec![Held { slot, requests: 1, weight: 1.0 }]);
            };
            let len = common(&self.tree.node(child).hashes, hashes);
            if len < self.tree.node(child).hashes.len() {
                let holders = self.tree.node(child).data.clone();
                child = self.tree.split(child, len, holders);
            }
            let holders = &mut self.tree.node_mut(child).data;
            match holders.binary_search_by_key(&slot, |held| held.slot) {
                Ok(at) => holders[at].requests += 1,
                Err(at) => {
                    holders.insert(at, Held { slot, requests: 1, weight: 1.0 });
                    self.ranks[slot as usize].blocks += len as f64;
                }
            }
            (node, hashes) = (child, &hashes[len..]);
        }
        node
    }

    /// A request's prompt is computed. Its blocks stay.
    pub(crate) fn computed(&mut self, now: Nanos, id: u64, booking: &mut Booking) {
        let tokens = std::mem::take(&mut booking.prefill);
        self.ranks[booking.slot as usize].prefills.remove(now, id, tokens);
    }

    /// A request is over.
    pub(crate) fn end(&mut self, now: Nanos, id: u64, booking: &Booking) {
        let rank = &mut self.ranks[booking.slot as usize];
        rank.prefills.remove(now, id, booking.prefill);
        rank.requests -= 1;
        rank.blocks -= booking.own_weight;
        let mut node = booking.leaf;
        while node != ROOT {
            let parent = self.tree.node(node).parent;
            self.leave(booking.slot, node);
            node = parent;
        }
        let rank = &mut self.ranks[booking.slot as usize];
        if rank.requests == 0 {
            // Fractions may have left a rest.
            rank.blocks = 0.0;
        }
    }

    /// One holder less of a run.
    fn leave(&mut self, slot: Slot, node: NodeId) {
        let run = self.tree.node_mut(node);
        let Ok(at) = run.data.binary_search_by_key(&slot, |held| held.slot) else { return };
        run.data[at].requests -= 1;
        if run.data[at].requests > 0 {
            return;
        }
        let held = run.data.remove(at);
        self.ranks[slot as usize].blocks -= held.weight * run.hashes.len() as f64;
        if run.data.is_empty() {
            debug_assert_eq!(run.first_child, NONE, "who holds a run holds all before it");
            self.tree.detach(node);
            self.tree.release(node);
        }
    }

    /// A request has one block of output more. With a fraction, all blocks that only this request holds weigh that much
    /// from now on, whatever they weighed before.
    pub(crate) fn add_output(&mut self, booking: &mut Booking, fraction: Option<f64>) {
        let mut change = 1.0;
        booking.own += 1;
        if let Some(fraction) = fraction {
            change = f64::from(booking.own) * fraction - booking.own_weight;
            self.decay(booking, fraction);
        }
        booking.own_weight += change;
        self.ranks[booking.slot as usize].blocks += change;
    }

    fn decay(&mut self, booking: &Booking, fraction: f64) {
        let mut node = booking.leaf;
        while node != ROOT {
            let run = self.tree.node_mut(node);
            let Ok(at) = run.data.binary_search_by_key(&booking.slot, |held| held.slot) else { return };
            if run.data[at].requests > 1 {
                return;
            }
            let old = std::mem::replace(&mut run.data[at].weight, fraction);
            let len = run.hashes.len() as f64;
            node = run.parent;
            self.ranks[booking.slot as usize].blocks += (fraction - old) * len;
        }
    }
}

/// Half away from zero.
#[inline]
fn round(blocks: f64) -> u32 {
    // The cast cuts; sums are never below zero but for a rest of fractions.
    (blocks + 0.5) as u32
}
