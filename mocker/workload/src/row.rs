//! One row of a trace, whatever its format.

use std::borrow::Cow;

use dynosim_engine::Nanos;

use crate::error::RowError;

/// The most tokens a request may have, prompt and output together: far above any real context, and low enough that the
/// hashes of its blocks fit into memory (512 MiB at one token per block) before an engine can refuse it.
pub const MAX_REQUEST_TOKENS: u64 = 1 << 26;

/// The latest timestamp and longest delay, in milliseconds: 285 years.
pub const MAX_TIME_MS: f64 = 9e12;

/// Tokens named by one hash id in the public Mooncake traces.
pub const DEFAULT_TRACE_BLOCK_SIZE: u32 = 512;

/// What the parser of a row must know beyond the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRules {
    /// Tokens per hash id; 1 or more.
    pub trace_block_size: u32,
    /// What to do with a prompt that is longer than its hash ids cover.
    pub excess: Excess,
}

impl Default for RowRules {
    fn default() -> Self {
        Self { trace_block_size: DEFAULT_TRACE_BLOCK_SIZE, excess: Excess::Reject }
    }
}

/// What to do with a prompt that is longer than its hash ids cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Excess {
    /// The row is an error, as in Dynamo 1.6.
    #[default]
    Reject,
    /// The prompt is cut to what the ids cover and counted, as in Dynamo 1.3.
    Clamp,
}

/// One request of a trace. Its hash ids are kept apart, in a vector that is reused from row to row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row<'a> {
    /// Time since the epoch of the trace, if given.
    pub timestamp: Option<Nanos>,
    /// Pause after the session's previous turn, if given.
    pub delay: Option<Nanos>,
    /// Prompt length in tokens; 1 or more.
    pub input_tokens: u32,
    /// Output length in tokens; 1 or more.
    pub output_tokens: u32,
    /// The session the row is a turn of; without it the row is independent.
    pub session_id: Option<Cow<'a, str>>,
    /// The name of the request.
    pub request_id: Option<Cow<'a, str>>,
    /// Larger is sooner; 0 if not given.
    pub priority: i32,
    /// Priority class of the router's queue; 0 if not given.
    pub strict_priority: u32,
    /// Name of a router policy class.
    pub policy_class: Option<Cow<'a, str>>,
    /// The prompt was cut to what its hash ids cover.
    pub clamped: bool,
}

/// Checks a length in tokens: 1 up to what `u32` holds.
pub(crate) fn checked_length(field: &'static str, value: u64) -> Result<u32, RowError> {
    match u32::try_from(value) {
        Ok(length) if length > 0 => Ok(length),
        Ok(_) => Err(RowError::range(field, &&value, "1 or more")),
        Err(_) => Err(RowError::range(field, &&value, format!("1 to {}", u32::MAX))),
    }
}

/// Checks that prompt and output fit into one request; `field` is the one blamed.
pub(crate) fn check_total(field: &'static str, input_tokens: u32, output_tokens: u32) -> Result<(), RowError> {
    if u64::from(input_tokens) + u64::from(output_tokens) <= MAX_REQUEST_TOKENS {
        return Ok(());
    }
    let allowed = format!("up to {MAX_REQUEST_TOKENS} tokens with the {input_tokens} of the prompt");
    Err(RowError::range(field, &&output_tokens, allowed))
}

/// Checks a number of tokens per block that a trace tells.
pub(crate) fn check_block_tokens(field: &'static str, size: u32) -> Result<u32, RowError> {
    if u64::from(size) <= MAX_REQUEST_TOKENS {
        return Ok(size);
    }
    Err(RowError::range(field, &size, format!("1 to {MAX_REQUEST_TOKENS}")))
}
