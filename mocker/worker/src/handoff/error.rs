//! How handoffs end early.

use std::time::Duration;

use dynosim_wire::bootstrap::FrameError;

/// A handoff that ended before the destination had the KV.
#[derive(Debug, thiserror::Error)]
pub enum HandoffError {
    /// The engine hands nothing off.
    #[error("engine `trtllm` hands no KV off (allowed: vllm, sglang)")]
    Engine,
    /// The router did not say where to meet.
    #[error("bootstrap_info has no handoff_id (allowed: a UUID)")]
    NoHandoffId,
    /// Peers want a UUID.
    #[error("request id `{0}` cannot be handed off (allowed: a UUID)")]
    RequestId(String),
    /// The source cannot be reached.
    #[error("bootstrap connection to {address} failed: {source}")]
    Connect {
        /// Where.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// The port cannot be listened on.
    #[error("bootstrap port {port} cannot be listened on: {source}")]
    Bind {
        /// Which.
        port: u16,
        /// Why.
        source: std::io::Error,
    },
    /// The other side did not come.
    #[error("the other side of the handoff did not come within {} s", .0.as_secs_f64())]
    Rendezvous(Duration),
    /// The handoff took too long.
    #[error("handoff timed out after {} s", .0.as_secs_f64())]
    Session(Duration),
    /// There is such a handoff already, or was.
    #[error("handoff session is already active or over")]
    Duplicate,
    /// Too many handoffs.
    #[error("too many handoffs at once")]
    Overloaded,
    /// Source and destination were told different things, or run different engines.
    #[error("identity, order or engine of the other side is another one")]
    Mismatch,
    /// The other side has gone.
    #[error("the other side of the handoff disconnected")]
    Closed,
    /// The other side gave up.
    #[error("the other side gave up: {0}")]
    Aborted(String),
    /// The other side could not do its part.
    #[error("the other side could not do its part: {0}")]
    Failed(String),
    /// The other side was told something that it did not expect.
    #[error("the other side refused: {0}")]
    Refused(String),
    /// The other side said something that was not its turn.
    #[error("unexpected handoff message: {0}")]
    Unexpected(String),
    /// The other side does not speak the protocol.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The connection broke.
    #[error("handoff connection: {0}")]
    Io(#[from] std::io::Error),
    /// The worker stops.
    #[error("the worker is shutting down")]
    Stopping,
}
