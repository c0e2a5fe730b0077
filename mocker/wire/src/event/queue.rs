//! What waits to be sent or taken: a queue that never blocks who fills it and never grows beyond its limits.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::limits::MAX_QUEUED_EVENTS;

/// Bytes queued for one subscriber before the oldest messages are dropped.
pub(crate) const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;
/// Room that an empty queue keeps.
const IDLE_CAPACITY: usize = 64;

/// Items for one consumer; the oldest are dropped when they are too many or too large.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Notify,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    /// Goes before all others; a later one replaces it.
    urgent: Option<T>,
    closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        let state = State { items: VecDeque::new(), bytes: 0, urgent: None, closed: false };
        Self { state: Mutex::new(state), filled: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing here panics with the lock held; if it did, what is queued would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an item of that many bytes; says how many were dropped for it.
    pub(crate) fn push(&self, item: T, bytes: usize) -> u64 {
        let mut state = self.lock();
        if state.closed {
            return 0;
        }
        let mut dropped = 0;
        while state.items.len() >= MAX_QUEUED_EVENTS || state.bytes + bytes > MAX_QUEUED_BYTES {
            let Some((_, oldest)) = state.items.pop_front() else { break };
            state.bytes -= oldest;
            dropped += 1;
        }
        let was_empty = state.items.is_empty();
        state.bytes += bytes;
        state.items.push_back((item, bytes));
        drop(state);
        if was_empty {
            self.filled.notify_one();
        }
        dropped
    }

    /// Puts an item before all others, instead of one put so before that was not taken yet.
    pub(crate) fn push_urgent(&self, item: T) {
        self.lock().urgent = Some(item);
        self.filled.notify_one();
    }

    /// Nothing more will come; what is there can still be taken.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// Waits for items; false once closed and empty. May be cancelled.
    pub(crate) async fn wait(&self) -> bool {
        loop {
            {
                let state = self.lock();
                if state.urgent.is_some() || !state.items.is_empty() {
                    return true;
                }
                if state.closed {
                    return false;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Moves items to `out`, oldest first: one, and more while they are below `budget` bytes together.
    pub(crate) fn take(&self, budget: usize, out: &mut Vec<T>) {
        let mut state = self.lock();
        out.extend(state.urgent.take());
        let mut taken = 0;
        while let Some((_, bytes)) = state.items.front()
            && (taken == 0 || taken + bytes <= budget)
        {
            taken += (*bytes).max(1);
            if let Some((item, bytes)) = state.items.pop_front() {
                state.bytes -= bytes;
                out.push(item);
            }
        }
        if state.items.is_empty() {
            state.items.shrink_to(IDLE_CAPACITY);
        }
    }

    /// Messages and bytes that are queued.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        let state = self.lock();
        (state.items.len(), state.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(queue: &Queue<usize>, budget: usize) -> Vec<usize> {
        let mut out = Vec::new();
        queue.take(budget, &mut out);
        out
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let queue = Queue::new();
        let dropped: u64 = (0..MAX_QUEUED_EVENTS + 3).map(|i| queue.push(i, 1)).sum();
        assert_eq!(dropped, 3);
        assert_eq!(queue.size(), (MAX_QUEUED_EVENTS, MAX_QUEUED_EVENTS));
        assert_eq!(taken(&queue, 2), [3, 4]);
    }

    #[test]
    fn the_oldest_go_when_they_are_too_large() {
        let queue = Queue::new();
        let dropped: u64 = (0..6).map(|i| queue.push(i, MAX_QUEUED_BYTES / 4)).sum();
        assert_eq!(dropped, 2);
        assert_eq!(queue.size(), (4, MAX_QUEUED_BYTES));
        assert_eq!(queue.push(9, MAX_QUEUED_BYTES), 4);
        assert_eq!(taken(&queue, 0), [9], "one is taken however small the budget is");
        assert_eq!(queue.size(), (0, 0));
    }

    #[tokio::test]
    async fn a_closed_queue_is_emptied_first_and_takes_nothing_more() {
        let queue = Queue::new();
        queue.push(1, 1);
        queue.push_urgent(0);
        queue.close();
        queue.push(2, 1);
        assert!(queue.wait().await);
        assert_eq!(taken(&queue, 10), [0, 1]);
        assert!(!queue.wait().await);
    }
}
