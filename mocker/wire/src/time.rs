//! The host's clocks: the live contract runs on them.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock; set back or forth by nobody.
#[allow(clippy::disallowed_methods, reason = "live parts run on the wall clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since 1970, for time stamps on the wire.
pub fn unix_ms() -> u64 {
    since_epoch().as_millis() as u64
}

/// Seconds since 1970, for time stamps on the wire.
pub fn unix_s() -> f64 {
    since_epoch().as_secs_f64()
}

#[allow(clippy::disallowed_methods, reason = "time stamps on the wire are those of the wall clock")]
fn since_epoch() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
