//! ZeroMQ sockets: ZMTP 3 over TCP, NULL security.
//!
//! ```text
//! both → greeting (64 bytes), READY command;  SUB → SUBSCRIBE/CANCEL;  PUB → messages of one or more frames
//! frame = flags (1: more follow, 2: long, 4: command), length (u8, or u64 if long), body
//! ```

pub(super) mod command;
pub(super) mod connection;
pub(super) mod frame;
pub(super) mod greeting;
pub(super) mod listen;
pub(super) mod publish;
pub(super) mod subscribe;

use std::io;

/// Frames of one message that are accepted.
pub(crate) const MAX_MESSAGE_PARTS: usize = 32;

/// A peer that cannot be talked to, or no longer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ZmtpError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("greeting: {0}")]
    Greeting(&'static str),
    #[error("frame flags {0:#04x} (allowed: 0 to 4 and 6)")]
    Flags(u8),
    #[error("{bytes} bytes in a frame or message, {limit} are allowed")]
    TooLong { bytes: u64, limit: usize },
    #[error("more than {MAX_MESSAGE_PARTS} frames in a message")]
    TooManyParts,
    #[error("command: {0}")]
    Command(&'static str),
    #[error("peer refuses: {0}")]
    Refused(String),
    #[error("peer is a {theirs} socket, which does not go with {ours}")]
    Role { ours: &'static str, theirs: String },
    #[error("handshake not done in time")]
    Timeout,
    #[error("more than {0} subscriptions")]
    TooManySubscriptions(usize),
    #[error("peer takes nothing")]
    Stalled,
}
