//! The monotonic clock, as nanoseconds since the start of a run.

use std::time::Instant;

use dynosim_engine::Nanos;

/// The host's clock; set back or forth by nobody.
#[allow(clippy::disallowed_methods, reason = "a load generator measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Counts from the start of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self(now())
    }

    /// Time since the start.
    #[inline]
    pub(crate) fn now(self) -> Nanos {
        Nanos(now().duration_since(self.0).as_nanos() as u64)
    }
}
