//! The radix cache.
//!
//! ```text
//!   root ─┬─ A [h0 h1 h2] ─┬─ B [h3 h4]        a node is a run of pages
//!         │                └─ C [h7]           B locked: A and B are protected, C is evictable
//!         └─ D [h9]
//! ```
//!
//! A page is named by its chain hash, which also identifies everything before it. So one table from "first page of a
//! node" to node replaces a map of children per node.
//!
//! Invariants: a locked node's ancestors are locked; an unlocked childless node is in the eviction order; `evictable`
//! and `protected` sum the pages of unlocked and locked nodes.

use hashbrown::HashTable;

use super::leaves::{EvictionPolicy, Leaves, Rank};
use crate::hash::BlockHashes;
use crate::pass::KvEvents;

/// A node: an index into the arena. Numbers are used again after eviction; a locked node keeps its number, and a split
/// gives the old number to the lower half, so that whoever locked a path can unlock it by the same number.
pub type NodeId = u32;

/// The empty prefix. Never evicted, never stamped.
pub const ROOT: NodeId = 0;

/// What the upper half of a split node has as its creation time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SplitAge {
    /// That of the node it came from (`SGLang`'s unified radix cache, the default there).
    #[default]
    Kept,
    /// The time of the split (`SGLang`'s older radix cache). Differs under FIFO only.
    Fresh,
}

#[derive(Clone, Debug, Default)]
struct Node {
    parent: NodeId,
    children: u32,
    locks: u32,
    hits: u32,
    priority: i32,
    used: u64,
    born: u64,
    /// Rank among its siblings, in order of appearance.
    order: u64,
    pages: Vec<u64>,
}

/// Where a lookup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The deepest node of the path.
    pub node: NodeId,
    /// Pages on the path (insert: pages that were there before).
    pub pages: u32,
}

/// What an insertion leaves on the nodes of its path.
#[derive(Clone, Copy, Debug)]
pub struct Insert {
    /// Raises their priority to at least this.
    pub priority: i32,
    /// Counts as a use of them (false for the chunks of an unfinished prompt).
    pub counts: bool,
}

impl Default for Insert {
    fn default() -> Self {
        Self { priority: 0, counts: true }
    }
}

/// The radix tree of one rank.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    unused: Vec<NodeId>,
    index: HashTable<NodeId>,
    leaves: Leaves,
    policy: EvictionPolicy,
    split_age: SplitAge,
    clock: u64,
    evictable: u32,
    protected: u32,
}

fn spread(hash: u64) -> u64 {
    let mixed = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 32)
}

impl Tree {
    /// An empty tree.
    pub fn new(policy: EvictionPolicy, split_age: SplitAge) -> Self {
        Self {
            nodes: vec![Node::default()],
            unused: Vec::new(),
            index: HashTable::new(),
            leaves: Leaves::default(),
            policy,
            split_age,
            clock: 0,
            evictable: 0,
            protected: 0,
        }
    }

    /// Pages that eviction can free now or after their descendants.
    pub fn evictable(&self) -> u32 {
        self.evictable
    }

    /// Pages on locked paths.
    pub fn protected(&self) -> u32 {
        self.protected
    }

    /// The node above.
    pub fn parent(&self, node: NodeId) -> NodeId {
        self.nodes[node as usize].parent
    }

    /// Orders siblings by their first appearance.
    pub fn order(&self, node: NodeId) -> u64 {
        self.nodes[node as usize].order
    }

    /// Pages of each node from the root down to `node`. Allocates: for tests and dumps.
    pub fn runs(&self, mut node: NodeId) -> Vec<u32> {
        let mut runs = Vec::new();
        while node != ROOT {
            runs.push(self.nodes[node as usize].pages.len() as u32);
            node = self.parent(node);
        }
        runs.reverse();
        runs
    }

    /// The longest cached prefix of the first `limit` pages. Stamps its path; a match that ends inside a node splits it.
    pub fn lookup(&mut self, key: &BlockHashes, limit: u32) -> Match {
        let mut found = Match { node: ROOT, pages: 0 };
        while let Some(child) = self.child(key, found.pages, limit) {
            let common = self.common(child, key, found.pages, limit);
            let whole = common == self.nodes[child as usize].pages.len() as u32;
            found.node = if whole { child } else { self.split(child, common) };
            found.pages += common;
            if !whole {
                break;
            }
        }
        let now = self.tick();
        let mut node = found.node;
        while node != ROOT {
            self.nodes[node as usize].used = now;
            self.rank(node);
            node = self.parent(node);
        }
        found
    }

    /// Makes the first `limit` pages cached. The result counts those that were there before and names the last node.
    pub fn insert(&mut self, key: &BlockHashes, limit: u32, how: Insert, events: &mut KvEvents) -> Match {
        let mut found = Match { node: ROOT, pages: 0 };
        while let Some(child) = self.child(key, found.pages, limit) {
            self.nodes[child as usize].used = self.tick();
            let common = self.common(child, key, found.pages, limit);
            let whole = common == self.nodes[child as usize].pages.len() as u32;
            found.node = if whole { child } else { self.split(child, common) };
            found.pages += common;
            let node = &mut self.nodes[found.node as usize];
            node.priority = node.priority.max(how.priority);
            node.hits += u32::from(how.counts);
            self.rank(found.node);
        }
        if found.pages < limit {
            found.node = self.grow(found.node, key, found.pages..limit, how, events);
        }
        found
    }

    /// Splits the path to `node` after `pages` pages from the root, unless a node ends there.
    pub fn split_at(&mut self, mut node: NodeId, depth: u32, pages: u32) {
        let mut end = depth;
        while node != ROOT {
            let len = self.nodes[node as usize].pages.len() as u32;
            let start = end - len;
            if start < pages && pages < end {
                self.split(node, pages - start);
            }
            if start <= pages {
                return;
            }
            end = start;
            node = self.parent(node);
        }
    }

    /// Protects the path to `node`.
    pub fn lock(&mut self, mut node: NodeId) {
        while node != ROOT {
            let entry = &mut self.nodes[node as usize];
            if entry.locks == 0 {
                let len = entry.pages.len() as u32;
                self.evictable -= len;
                self.protected += len;
                self.leaves.remove(node);
            }
            entry.locks += 1;
            node = entry.parent;
        }
    }

    /// Takes one lock off the path to `node`.
    pub fn unlock(&mut self, mut node: NodeId) {
        while node != ROOT {
            let entry = &mut self.nodes[node as usize];
            debug_assert!(entry.locks > 0, "unlocked more often than locked");
            entry.locks -= 1;
            let (parent, free) = (entry.parent, entry.locks == 0);
            if free {
                let len = entry.pages.len() as u32;
                self.evictable += len;
                self.protected -= len;
                self.rank(node);
            }
            node = parent;
        }
    }

    /// Evicts whole leaves until at least `pages` pages are gone or none is left; returns how many went.
    pub fn evict(&mut self, pages: u32, events: &mut KvEvents) -> u32 {
        let mut gone = 0;
        while gone < pages {
            let Some(node) = self.leaves.first() else { break };
            events.removed(self.nodes[node as usize].pages.iter().copied());
            gone += self.nodes[node as usize].pages.len() as u32;
            self.remove(node);
        }
        gone
    }

    /// Drops everything.
    pub fn reset(&mut self, events: &mut KvEvents) {
        debug_assert_eq!(self.protected, 0, "a reset needs every lock gone");
        self.nodes.truncate(1);
        self.nodes[ROOT as usize] = Node::default();
        self.unused.clear();
        self.index.clear();
        self.leaves.clear();
        self.evictable = 0;
        events.cleared();
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn child(&self, key: &BlockHashes, at: u32, limit: u32) -> Option<NodeId> {
        if at >= limit {
            return None;
        }
        let first = key.get(at as usize);
        self.index.find(spread(first), |&node| self.nodes[node as usize].pages[0] == first).copied()
    }

    /// Pages of `node` that agree with the key from page `at` on.
    fn common(&self, node: NodeId, key: &BlockHashes, at: u32, limit: u32) -> u32 {
        let pages = &self.nodes[node as usize].pages;
        let room = (limit - at) as usize;
        let known = key.known.get(at as usize..).unwrap_or_default();
        let shared = pages.iter().zip(known).take(room).take_while(|(a, b)| a == b).count();
        if shared < known.len() {
            return shared as u32;
        }
        let further = pages.iter().enumerate().take(room).skip(shared);
        (shared + further.take_while(|&(i, &page)| page == key.get(at as usize + i)).count()) as u32
    }

    fn new_node(&mut self) -> NodeId {
        let now = self.tick();
        let node = self.unused.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            self.nodes.len() as NodeId - 1
        });
        let entry = &mut self.nodes[node as usize];
        let pages = std::mem::take(&mut entry.pages);
        *entry = Node { used: now, born: now, order: now, pages, ..Node::default() };
        node
    }

    fn grow(
        &mut self,
        parent: NodeId,
        key: &BlockHashes,
        range: std::ops::Range<u32>,
        how: Insert,
        events: &mut KvEvents,
    ) -> NodeId {
        let node = self.new_node();
        let position = range.start;
        self.evictable += range.len() as u32;
        let entry = &mut self.nodes[node as usize];
        entry.parent = parent;
        entry.priority = how.priority;
        entry.hits = u32::from(how.counts);
        entry.pages.extend(range.map(|page| key.get(page as usize)));
        let parent_page = self.nodes[parent as usize].pages.last().copied();
        events.stored(parent_page, position, self.nodes[node as usize].pages.iter().copied());
        self.nodes[parent as usize].children += 1;
        self.leaves.remove(parent);
        self.enter(node);
        self.rank(node);
        node
    }

    /// Cuts `node` after its first `pages` pages; returns the new upper half. The lower half keeps the number.
    fn split(&mut self, node: NodeId, pages: u32) -> NodeId {
        let upper = self.new_node();
        let mut run = std::mem::take(&mut self.nodes[upper as usize].pages);
        let now = self.tick();
        self.leave(node);
        let lower = &mut self.nodes[node as usize];
        run.extend(lower.pages.drain(..pages as usize));
        lower.used = now;
        let (parent, locks, hits) = (lower.parent, lower.locks, lower.hits);
        let (priority, born, order) = (lower.priority, lower.born, lower.order);
        lower.parent = upper;
        let entry = &mut self.nodes[upper as usize];
        *entry =
            Node { parent, children: 1, locks, hits, priority, used: entry.used, born: entry.born, order, pages: run };
        if self.split_age == SplitAge::Kept {
            entry.born = born;
        }
        self.enter(node);
        self.enter(upper);
        self.rank(node);
        upper
    }

    fn remove(&mut self, node: NodeId) {
        self.leave(node);
        self.leaves.remove(node);
        let entry = &mut self.nodes[node as usize];
        let (parent, len) = (entry.parent, entry.pages.len() as u32);
        entry.pages.clear();
        self.evictable -= len;
        self.unused.push(node);
        self.nodes[parent as usize].children -= 1;
        if parent != ROOT {
            self.rank(parent);
        }
    }

    fn enter(&mut self, node: NodeId) {
        let nodes = &self.nodes;
        self.index.insert_unique(spread(nodes[node as usize].pages[0]), node, |&other| {
            spread(nodes[other as usize].pages[0])
        });
    }

    fn leave(&mut self, node: NodeId) {
        let first = self.nodes[node as usize].pages[0];
        if let Ok(entry) = self.index.find_entry(spread(first), |&other| other == node) {
            entry.remove();
        }
    }

    /// Brings the eviction order up to date with a changed node.
    fn rank(&mut self, node: NodeId) {
        let entry = &self.nodes[node as usize];
        if entry.children > 0 || entry.locks > 0 {
            return;
        }
        let rank: Rank = match self.policy {
            EvictionPolicy::Lru => (0, entry.used),
            EvictionPolicy::Fifo => (0, entry.born),
            EvictionPolicy::Lfu => (i64::from(entry.hits), entry.used),
            EvictionPolicy::Mru => (0, u64::MAX - entry.used),
            EvictionPolicy::Priority => (i64::from(entry.priority), entry.used),
        };
        self.leaves.set(node, rank);
    }
}

#[cfg(test)]
mod tests;
