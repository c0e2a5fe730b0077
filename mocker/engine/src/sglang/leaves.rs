//! The evictable leaves of the radix tree in eviction order.
//!
//! An indexed binary heap: a leaf knows its place, so a new stamp moves it and a lock takes it out in `O(log n)`, and
//! no stale entries pile up.

use super::tree::NodeId;

/// Which unlocked leaf goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// Least recently used.
    #[default]
    Lru,
    /// Oldest by creation.
    Fifo,
    /// Fewest insertions that passed through it, then least recently used.
    Lfu,
    /// Most recently used.
    Mru,
    /// Lowest priority, then least recently used.
    Priority,
}

/// Smaller goes first.
pub(super) type Rank = (i64, u64);

const ABSENT: u32 = u32::MAX;

/// Min-heap of leaves by rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaves {
    heap: Vec<(Rank, NodeId)>,
    /// Place in `heap` by node.
    place: Vec<u32>,
}

impl Leaves {
    /// Puts the leaf in, or moves it to where its new rank belongs.
    pub(super) fn set(&mut self, node: NodeId, rank: Rank) {
        if self.place.len() <= node as usize {
            self.place.resize(node as usize + 1, ABSENT);
        }
        let mut at = self.place[node as usize];
        if at == ABSENT {
            at = self.heap.len() as u32;
            self.heap.push((rank, node));
            self.place[node as usize] = at;
        } else {
            self.heap[at as usize].0 = rank;
        }
        self.settle(at as usize);
    }

    /// Takes the node out, if it is in.
    pub(super) fn remove(&mut self, node: NodeId) {
        let Some(&at) = self.place.get(node as usize) else { return };
        if at == ABSENT {
            return;
        }
        self.place[node as usize] = ABSENT;
        let last = self.heap.pop().expect("a place points into the heap");
        if (at as usize) < self.heap.len() {
            self.heap[at as usize] = last;
            self.place[last.1 as usize] = at;
            self.settle(at as usize);
        }
    }

    /// The leaf to evict next.
    pub(super) fn first(&self) -> Option<NodeId> {
        self.heap.first().map(|&(_, node)| node)
    }

    /// Forgets all leaves.
    pub(super) fn clear(&mut self) {
        self.heap.clear();
        self.place.clear();
    }

    fn settle(&mut self, at: usize) {
        let risen = self.rise(at);
        if risen == at {
            self.sink(at);
        }
    }

    fn rise(&mut self, mut at: usize) -> usize {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent] <= self.heap[at] {
                break;
            }
            self.swap(parent, at);
            at = parent;
        }
        at
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let left = 2 * at + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let child = if right < self.heap.len() && self.heap[right] < self.heap[left] { right } else { left };
            if self.heap[at] <= self.heap[child] {
                return;
            }
            self.swap(at, child);
            at = child;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a].1 as usize] = a as u32;
        self.place[self.heap[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(leaves: &mut Leaves) -> Vec<NodeId> {
        let mut order = Vec::new();
        while let Some(node) = leaves.first() {
            order.push(node);
            leaves.remove(node);
        }
        order
    }

    #[test]
    fn leaves_come_out_by_rank_after_moves_and_removals() {
        let mut leaves = Leaves::default();
        for node in 1..=9 {
            leaves.set(node, (0, u64::from(10 - node)));
        }
        leaves.set(9, (0, 100));
        leaves.set(1, (-1, 0));
        leaves.remove(5);
        leaves.remove(5);
        leaves.remove(77);
        assert_eq!(drain(&mut leaves), [1, 8, 7, 6, 4, 3, 2, 9]);
    }
}
