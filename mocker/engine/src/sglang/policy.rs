//! The order of the waiting queue.

use std::collections::VecDeque;

use super::kv::Kv;
use super::slot::Slots;
use super::tree::{NodeId, ROOT};
use crate::request::RequestId;

/// Longest prefix match compares at most this many requests.
const LPM_QUEUE: usize = 128;
/// Requests with at most this many cached tokens are compared with each other, and this many common tokens defer one.
const COMMON_TOKENS: u32 = 32;
/// First come, first served renews the stamps of waiting prefixes at every so-manieth attempt.
const REFRESH_EVERY: u32 = 32;
/// It does so for this many requests.
const REFRESH_QUEUE: usize = 128;

/// Who is tried first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueuePolicy {
    /// First come, first served.
    #[default]
    Fcfs,
    /// Longest cached prefix first; requests that share an uncached prefix wait for the first of them.
    Lpm,
    /// Depth first through the radix tree, subtrees with more waiting requests first.
    DfsWeight,
}

/// Orders the queue before an attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    attempts: u32,
    seen: Vec<u64>,
    keyed: Vec<(i64, RequestId)>,
    weights: Vec<Weighed>,
    ends: Vec<(u32, RequestId)>,
}

/// A tree node with waiting requests below it.
#[derive(Clone, Copy, Debug)]
struct Weighed {
    node: NodeId,
    weight: u32,
    parent: NodeId,
}

impl Order {
    /// Brings the queue into the order of the policy.
    pub(super) fn arrange(
        &mut self,
        policy: QueuePolicy,
        queue: &mut VecDeque<RequestId>,
        slots: &mut Slots,
        kv: &mut Kv,
    ) {
        if !kv.radix {
            return;
        }
        match policy {
            QueuePolicy::Lpm if queue.len() <= LPM_QUEUE => self.longest_prefix(queue, slots, kv),
            QueuePolicy::DfsWeight => self.depth_first(queue, slots, kv),
            QueuePolicy::Fcfs | QueuePolicy::Lpm => self.refresh(queue, slots, kv),
        }
    }

    /// Keeps the prefixes of waiting requests from being evicted as unused, the head's longest.
    fn refresh(&mut self, queue: &VecDeque<RequestId>, slots: &mut Slots, kv: &mut Kv) {
        self.attempts += 1;
        if !self.attempts.is_multiple_of(REFRESH_EVERY) {
            return;
        }
        for &id in queue.iter().take(REFRESH_QUEUE).rev() {
            let known = slots[id].known();
            kv.lookup(&mut slots[id], known);
        }
    }

    fn longest_prefix(&mut self, queue: &mut VecDeque<RequestId>, slots: &mut Slots, kv: &mut Kv) {
        let page_size = kv.pool.page_size();
        // Whole pages stand for tokens: two requests have this page in common exactly if they agree up to its end.
        let common = COMMON_TOKENS.div_ceil(page_size);
        self.seen.clear();
        self.keyed.clear();
        for &id in queue.iter() {
            let slot = &mut slots[id];
            let known = slot.known();
            let hit = kv.lookup(slot, known) * page_size;
            slot.matched = hit.min(known - 1);
            let mut key = -i64::from(slot.matched);
            if hit <= COMMON_TOKENS && known / page_size >= common {
                let page = slot.hashes.get(common as usize - 1);
                if self.seen.contains(&page) {
                    key = i64::MAX;
                } else {
                    self.seen.push(page);
                }
            }
            self.keyed.push((key, id));
        }
        self.keyed.sort_by_key(|&(key, _)| key);
        queue.clear();
        queue.extend(self.keyed.iter().map(|&(_, id)| id));
    }

    fn depth_first(&mut self, queue: &mut VecDeque<RequestId>, slots: &mut Slots, kv: &mut Kv) {
        for &id in queue.iter() {
            let known = slots[id].known();
            kv.lookup(&mut slots[id], known);
        }
        // A match may have split nodes, but a request's node keeps its number, so the ends are read afterwards.
        self.ends.clear();
        self.ends.extend(queue.iter().map(|&id| (slots[id].node, id)));
        self.weigh(kv);
        queue.clear();
        self.visit(ROOT, queue);
    }

    /// Counts the waiting requests in each subtree that has any; children end up beside each other, heaviest first.
    fn weigh(&mut self, kv: &Kv) {
        self.weights.clear();
        for &(end, _) in &self.ends {
            let mut node = end;
            while node != ROOT {
                let parent = kv.tree.parent(node);
                self.weights.push(Weighed { node, weight: 1, parent });
                node = parent;
            }
        }
        self.weights.sort_unstable_by_key(|weighed| weighed.node);
        self.weights.dedup_by(|next, kept| {
            let same = next.node == kept.node;
            kept.weight += if same { next.weight } else { 0 };
            same
        });
        self.weights.sort_unstable_by_key(|weighed| {
            (weighed.parent, std::cmp::Reverse(weighed.weight), kv.tree.order(weighed.node))
        });
        self.ends.sort_by_key(|&(end, _)| end);
    }

    fn visit(&self, node: NodeId, queue: &mut VecDeque<RequestId>) {
        let first = self.weights.partition_point(|weighed| weighed.parent < node);
        for weighed in self.weights[first..].iter().take_while(|weighed| weighed.parent == node) {
            self.visit(weighed.node, queue);
        }
        let first = self.ends.partition_point(|&(end, _)| end < node);
        queue.extend(self.ends[first..].iter().take_while(|&&(end, _)| end == node).map(|&(_, id)| id));
    }
}
