//! Why a request got no whole answer.

use std::fmt;
use std::io;

use crate::limits::MESSAGE_MAX;

/// Kinds of failures, as reports name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// Nobody listens at the port.
    Refused,
    /// The connection could not be made for another reason.
    Connect,
    /// The server answered with this status, which is not 200.
    Status(u16),
    /// The connection or the stream ended before the answer did.
    Broken,
    /// The answer was not complete in time.
    Timeout,
    /// The answer is no HTTP, no JSON, or beyond a limit.
    Malformed,
    /// The server reported an error within a stream that had begun.
    ErrorEvent,
}

impl FailureKind {
    /// The server says that it will never serve this request: a status of 400 to 499.
    pub fn is_rejection(self) -> bool {
        matches!(self, Self::Status(400..=499))
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refused"),
            Self::Connect => f.write_str("connect"),
            Self::Status(code) => write!(f, "status_{code}"),
            Self::Broken => f.write_str("broken"),
            Self::Timeout => f.write_str("timeout"),
            Self::Malformed => f.write_str("malformed"),
            Self::ErrorEvent => f.write_str("error_event"),
        }
    }
}

/// One failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(MESSAGE_MAX) {
            message.truncate(end);
            message.push('…');
        }
        Self { kind, message }
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Malformed, message)
    }

    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Broken, message)
    }

    /// A connection that could not be made.
    pub(crate) fn connecting(error: &io::Error) -> Self {
        let refused = error.kind() == io::ErrorKind::ConnectionRefused;
        Self::new(if refused { FailureKind::Refused } else { FailureKind::Connect }, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_at_a_character() {
        let failure = Failure::malformed("ä".repeat(MESSAGE_MAX + 5));
        assert_eq!(failure.message.chars().count(), MESSAGE_MAX + 1);
        assert_eq!(Failure::broken("short").to_string(), "broken: short");
        assert!(FailureKind::Status(404).is_rejection() && !FailureKind::Status(503).is_rejection());
    }
}
