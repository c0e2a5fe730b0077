//! How far a request has come, told by the engine's thread to the request's task.
//!
//! Output tokens are a function of their position, so only their number travels: whatever the engine makes while the
//! task waits for a slow client, this stays 40 bytes.

use std::sync::{Arc, Mutex, PoisonError};

use dynosim_engine::Rejection;
use tokio::sync::Notify;

/// Why a request's output goes on no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has all its tokens.
    Complete,
    /// The engine gave up on it before (`SGLang`, when not even one request fits).
    OutOfMemory,
    /// The engine refused it.
    Rejected(Rejection),
    /// The engine has stopped.
    Stopped,
}

/// What is known of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Output tokens made so far.
    pub tokens: u32,
    /// Prompt tokens found in the prefix cache; none before it is admitted.
    pub cached_tokens: Option<u32>,
    /// Decode role: blocks are reserved, and KV of so many prompt tokens was found here.
    pub reserved_tokens: Option<u32>,
    /// It has ended.
    pub end: Option<End>,
}

/// Progress of one request: written by the engine's thread, read by the request's task.
#[derive(Debug, Default)]
pub struct Progress {
    state: Mutex<Snapshot>,
    changed: Notify,
}

impl Progress {
    /// What is known now.
    pub fn snapshot(&self) -> Snapshot {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for news since the last call. Dropping the future loses nothing.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }
}

/// The writing end. Dropped before the request's end, it says that the engine has stopped, so that nobody waits for ever.
#[derive(Debug)]
pub(crate) struct Reporter(Arc<Progress>);

impl Reporter {
    pub(crate) fn new(progress: &Arc<Progress>) -> Self {
        Self(progress.clone())
    }

    pub(crate) fn advance(&self, tokens: u32, cached_tokens: Option<u32>) {
        self.0.update(|state| (state.tokens, state.cached_tokens) = (tokens, cached_tokens));
    }

    pub(crate) fn reserved(&self, tokens: u32) {
        self.0.update(|state| state.reserved_tokens = Some(tokens));
    }

    pub(crate) fn end(&self, end: End) {
        self.0.update(|state| {
            state.end.get_or_insert(end);
        });
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.end(End::Stopped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn news_are_kept_until_they_are_waited_for_and_an_engine_that_stops_ends_the_wait() {
        let progress = Arc::new(Progress::default());
        let reporter = Reporter::new(&progress);
        reporter.advance(3, Some(64));
        progress.changed().await;
        assert_eq!(progress.snapshot(), Snapshot { tokens: 3, cached_tokens: Some(64), ..Snapshot::default() });
        drop(reporter);
        progress.changed().await;
        assert_eq!(progress.snapshot().end, Some(End::Stopped));
    }

    #[test]
    fn the_first_end_stays() {
        let progress = Arc::new(Progress::default());
        Reporter::new(&progress).end(End::Complete);
        assert_eq!(progress.snapshot().end, Some(End::Complete));
    }
}
