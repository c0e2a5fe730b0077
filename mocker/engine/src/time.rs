//! Simulated time.

use std::ops::{Add, AddAssign, Sub};

/// A point in simulated time, or a span of it, in whole nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of every run.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const MAX: Self = Self(u64::MAX);

    /// Milliseconds, rounded once to the nearest nanosecond. Negative values and NaN become zero.
    #[inline]
    pub fn from_ms(ms: f64) -> Self {
        // The cast cuts; adding a half first is much cheaper than `round`, which is a call on plain x86-64.
        Self((ms * 1e6 + 0.5) as u64)
    }

    /// Seconds, rounded once to the nearest nanosecond. Negative values and NaN become zero.
    pub fn from_secs(seconds: f64) -> Self {
        Self((seconds * 1e9).round() as u64)
    }

    /// As milliseconds.
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// As seconds.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span since `earlier`; zero if that is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_round_once_and_never_wrap() {
        assert_eq!(Nanos::from_ms(102.943_592_6), Nanos(102_943_593));
        assert_eq!(Nanos::from_ms(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_ms(f64::NAN), Nanos::ZERO);
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos(3).since(Nanos(5)), Nanos::ZERO);
    }
}
