//! Values of flags within their bounds.

use dynosim_engine::Nanos;
use dynosim_replay::Admission;
use dynosim_workload::error::compact;

use crate::failure::Failure;

/// Longest time that can be asked for, in seconds (a hundred years).
const SIM_TIME_MAX_SECONDS: f64 = 3.2e9;

/// `--replay-concurrency`, if given.
pub(crate) fn admission(concurrency: Option<u32>) -> Result<Admission, Failure> {
    Ok(match concurrency {
        Some(limit) => Admission::Concurrency(within("--replay-concurrency", limit, 1, u32::MAX)?),
        None => Admission::Schedule,
    })
}

/// A time in seconds.
pub(crate) fn span(flag: &str, seconds: f64) -> Result<Nanos, Failure> {
    if (0.0..=SIM_TIME_MAX_SECONDS).contains(&seconds) {
        Ok(Nanos::from_secs(seconds))
    } else {
        Err(out_of_range(flag, &seconds, &format!("0 to {SIM_TIME_MAX_SECONDS}")))
    }
}

/// A count within bounds.
pub(crate) fn within(flag: &str, value: u32, least: u32, most: u32) -> Result<u32, Failure> {
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(out_of_range(flag, &value, &format!("{least} to {most}")))
    }
}

/// Why a value is refused.
pub(crate) fn out_of_range(flag: &str, value: &impl ToString, allowed: &str) -> Failure {
    let value = compact(value);
    Failure::input(format_args!("{flag}: {value} is out of range (allowed: {allowed})"))
}
