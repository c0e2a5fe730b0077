//! The page pool.
//!
//! Only counts: which page a request gets decides nothing in a simulation (the radix tree identifies KV by hash), so
//! the pool needs no memory per page, however large the GPU. The golden tree logs also check page numbers; their driver
//! keeps the real allocator's free list itself.

/// Free and total pages of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    page_size: u32,
    total: u32,
    free: u32,
}

impl Pool {
    /// A pool of `capacity_tokens` slots in whole pages.
    pub fn new(capacity_tokens: u64, page_size: u32) -> Self {
        let total = (capacity_tokens / u64::from(page_size)).min(u64::from(u32::MAX)) as u32;
        Self { page_size, total, free: total }
    }

    /// Tokens per page.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Pages in all.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Pages that nobody holds, not even the tree.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Pages that `tokens` occupy.
    pub fn pages_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.page_size)
    }

    /// Takes `pages` out. The caller has made sure that they are there.
    pub(super) fn take(&mut self, pages: u32) {
        self.free = self.free.checked_sub(pages).expect("the caller checked the room");
    }

    /// Gives `pages` back.
    pub(super) fn give(&mut self, pages: u32) {
        self.free += pages;
        debug_assert!(self.free <= self.total, "a page came back twice");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_cut_to_whole_pages() {
        let mut pool = Pool::new(100, 16);
        assert_eq!((pool.total(), pool.free(), pool.pages_for(17)), (6, 6, 2));
        pool.take(6);
        pool.give(2);
        assert_eq!(pool.free(), 2);
    }
}
