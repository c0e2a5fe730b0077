//! Ends a run early, from a signal handler's thread for example.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared between a run and whoever may end it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// The run stops sending, counts what is in flight as canceled, and reports what was measured.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
