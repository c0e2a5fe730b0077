//! What the HTTP side asks of the serving side: one request to a model, one stream of outputs back.

use std::time::Duration;

use dynosim_wire::protocol::EngineOutput;

/// Why a request got no output, or its output broke off for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GenerateError {
    /// No worker serves the model now: 503 with `Retry-After`.
    #[error("{reason}")]
    Unavailable {
        /// Why, naming the model and what is missing (for example prefill workers).
        reason: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// Too many requests wait: 429.
    #[error("{0}")]
    Busy(String),
    /// The request cannot be served by any worker: 400.
    #[error("{0}")]
    Invalid(String),
    /// The worker failed, and no other could go on: 500, or an error event in a stream that has begun.
    #[error("{0}")]
    Failed(String),
}

/// The outputs of a request. Dropped before its end, the work is cancelled at the workers.
pub(crate) trait Outputs: Send {
    /// The next output; none when it is complete. The last output has a finish reason.
    fn next(&mut self) -> impl Future<Output = Result<Option<EngineOutput>, GenerateError>> + Send;
    /// The next output if it has come already.
    fn next_ready(&mut self) -> Result<Option<EngineOutput>, GenerateError>;
}
