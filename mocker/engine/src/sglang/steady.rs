//! Many equal decode passes at once.

use super::Mode;
use super::scheduler::Scheduler;
use crate::pass::{Emission, Pass, Steady};

impl Scheduler {
    /// The passes ahead in which the same batch decodes and nothing else happens. Needs the batch to be settled (the
    /// last pass was decode, nobody ended in it) and the queue to be out of play (empty, or the full flag set).
    pub(super) fn find_steady(&self, limit: u32) -> Option<Steady> {
        let settled = self.mode == Mode::Decode && self.ended.is_empty() && self.chunked.is_none();
        let quiet = self.reserving.is_empty() && (self.full || self.waiting.is_empty()) && !self.someone_joins();
        if !settled || !quiet || self.running.is_empty() {
            return None;
        }
        let remaining = self.running.iter().map(|&id| self.slots[id].remaining()).min()?;
        let passes = self.passes_with_pages(remaining.saturating_sub(1).min(limit));
        (passes > 0).then(|| Steady { passes, decode: self.decode_batch() })
    }

    fn someone_joins(&self) -> bool {
        let places = self.config.max_running_requests.map_or(usize::MAX, |max| max as usize);
        !self.ready.is_empty() && self.running.len() < places
    }

    /// Pages that the batch takes in the next `passes` passes.
    fn pages_after(&self, passes: u32) -> u64 {
        let page_size = self.config.page_size;
        self.running
            .iter()
            .map(|&id| u64::from(self.slots[id].missing(self.slots[id].computed + passes, page_size)))
            .sum()
    }

    /// How many of at most `limit` passes run without eviction. As long as something can be evicted, a pass with less
    /// than one free page per request evicts, needed or not.
    fn passes_with_pages(&self, limit: u32) -> u32 {
        let free = u64::from(self.kv.pool.free());
        let ahead = if self.kv.tree.evictable() > 0 { self.running.len() as u64 } else { 0 };
        let fits = |passes: u32| {
            self.pages_after(passes) <= free && (passes == 0 || self.pages_after(passes - 1) + ahead <= free)
        };
        if fits(limit) {
            return limit;
        }
        let (mut good, mut bad) = (0, limit);
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if fits(middle) {
                good = middle;
            } else {
                bad = middle;
            }
        }
        good
    }

    /// Runs `passes` steady passes.
    pub(super) fn run_steady(&mut self, passes: u32, pass: &mut Pass) {
        self.slots.recycle();
        pass.decode = self.decode_batch();
        let page_size = self.config.page_size;
        for &id in &self.running {
            let slot = &mut self.slots[id];
            let pages = slot.missing(slot.computed + passes, page_size);
            self.kv.pool.take(pages);
            slot.own += pages;
            slot.computed += passes;
            slot.outputs += passes;
            pass.emitted.push(Emission { request: id, tokens: 1 });
        }
        self.ratio.decay(passes);
    }
}
