//! Pages and radix cache together: room, publication and release of a request's KV.

use super::leaves::EvictionPolicy;
use super::pages::Pool;
use super::slot::Slot;
use super::tree::{Insert, ROOT, SplitAge, Tree};
use crate::pass::KvEvents;

/// When a request's KV is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Publish {
    /// A chunk of an unfinished prompt.
    Chunk,
    /// The prompt is finished, the request goes on (or its KV is held).
    Prompt,
}

/// The KV memory of one rank.
#[derive(Clone, Debug)]
pub(super) struct Kv {
    pub(super) tree: Tree,
    pub(super) pool: Pool,
    /// Off: nothing is shared, KV is freed when its request ends.
    pub(super) radix: bool,
}

impl Kv {
    pub(super) fn new(capacity_tokens: u64, page_size: u32, radix: bool) -> Self {
        Self {
            tree: Tree::new(EvictionPolicy::Lru, SplitAge::Kept),
            pool: Pool::new(capacity_tokens, page_size),
            radix,
        }
    }

    /// Free tokens.
    pub(super) fn available(&self) -> u64 {
        u64::from(self.pool.free()) * u64::from(self.pool.page_size())
    }

    /// Cached tokens that may be evicted.
    pub(super) fn evictable(&self) -> u64 {
        u64::from(self.tree.evictable()) * u64::from(self.pool.page_size())
    }

    /// Cached tokens that some request locks.
    pub(super) fn protected(&self) -> u64 {
        u64::from(self.tree.protected()) * u64::from(self.pool.page_size())
    }

    /// Evicts if fewer than `tokens` tokens are free. What then is still missing is not there.
    pub(super) fn make_room(&mut self, tokens: u64, events: &mut KvEvents) {
        let free = self.available();
        if free < tokens {
            let missing = (tokens - free).div_ceil(u64::from(self.pool.page_size()));
            let gone = self.tree.evict(missing.min(u64::from(u32::MAX)) as u32, events);
            self.pool.give(gone);
        }
    }

    /// Finds the cached prefix of the slot's tokens, of at most `tokens` tokens. Returns its pages; nothing is locked.
    pub(super) fn lookup(&mut self, slot: &mut Slot, tokens: u32) -> u32 {
        if !self.radix {
            return 0;
        }
        let found = self.tree.lookup(&slot.hashes, tokens / self.pool.page_size());
        slot.node = found.node;
        found.pages
    }

    /// Makes the whole pages computed so far findable. Pages that another request published meanwhile are shared with
    /// it and the copies freed; the request keeps its path locked.
    pub(super) fn publish(&mut self, slot: &mut Slot, when: Publish, events: &mut KvEvents) {
        if !self.radix {
            return;
        }
        let pages = slot.computed / self.pool.page_size();
        let how = Insert { counts: when != Publish::Chunk, ..Insert::default() };
        self.insert(slot, pages, how, events);
        let found = self.tree.lookup(&slot.hashes, pages);
        self.tree.unlock(slot.node);
        self.tree.lock(found.node);
        slot.node = found.node;
    }

    /// Publishes what an ended request has computed and lets go of all its KV.
    pub(super) fn retire(&mut self, slot: &mut Slot, events: &mut KvEvents) {
        if self.radix {
            let pages = slot.computed / self.pool.page_size();
            self.insert(slot, pages, Insert::default(), events);
        }
        self.drop_kv(slot);
    }

    /// Lets go of all its KV without publishing: own pages are free at once, the shared path is unlocked.
    pub(super) fn drop_kv(&mut self, slot: &mut Slot) {
        self.pool.give(slot.own);
        self.tree.unlock(slot.node);
        slot.own = 0;
        slot.shared = 0;
        slot.node = ROOT;
        slot.computed = 0;
    }

    /// Inserts the first `pages` pages; afterwards they all belong to the tree. The end of the prompt always lies
    /// between two nodes, so that output can be evicted without it.
    fn insert(&mut self, slot: &mut Slot, pages: u32, how: Insert, events: &mut KvEvents) {
        let found = self.tree.insert(&slot.hashes, pages, how, events);
        self.tree.split_at(found.node, pages, slot.prompt / self.pool.page_size());
        self.pool.give(found.pages.saturating_sub(slot.shared));
        slot.own -= pages - slot.shared;
        slot.shared = pages;
    }
}
