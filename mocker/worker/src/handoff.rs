//! KV from a prefill worker (the source) to a decode worker (the destination): both hold their blocks until the other
//! side has done its part, or one of them is gone.
//!
//! The source listens and leads; the destination dials the address that the router told both. Which of them comes first
//! does not matter. In the order of vLLM the prompt is computed, then the destination takes blocks; in that of `SGLang`
//! the destination takes blocks first. The source sleeps the transfer's time, then lets the destination decode.
//!
//! Sessions are plain futures: dropping one ends it on both sides, and [`SourceSession::during`] and
//! [`DestinationSession::during`] end work when the other side goes. The engine is not known here. A prefill worker:
//!
//! ```
//! # use dynosim_worker::handoff::{HandoffError, HandoffListener};
//! # use dynosim_wire::bootstrap::Identity;
//! # async fn compute_prompt() {}
//! # fn release_blocks() {}
//! async fn prefill(listener: &HandoffListener, identity: Identity, prompt_tokens: u32) -> Result<(), HandoffError> {
//!     let mut session = listener.expect(identity)?.meet().await?;
//!     session.during(compute_prompt()).await?; // the first token may be sent now
//!     session.transfer(prompt_tokens).await?;
//!     release_blocks();
//!     session.complete().await
//! }
//! ```
//!
//! A decode worker, which may send tokens from `activate` on, while it waits for `completed`:
//!
//! ```
//! # use dynosim_worker::handoff::{DestinationSession, HandoffError, Meeting, Terms};
//! # async fn reserve_blocks() -> u32 { 0 }
//! # fn activate() {}
//! async fn decode(meeting: &Meeting, terms: &Terms, rank: u32) -> Result<(), HandoffError> {
//!     let mut session = DestinationSession::dial(meeting, terms, rank).await?;
//!     session.asked_to_reserve().await?;
//!     let transferable_tokens = session.during(reserve_blocks()).await?;
//!     session.reserved(transferable_tokens).await?;
//!     activate();
//!     session.applied().await?;
//!     session.completed().await
//! }
//! ```

mod channel;
mod destination;
mod error;
mod listener;
mod rendezvous;
mod source;
mod terms;
#[cfg(test)]
mod tests;

pub use destination::DestinationSession;
pub use error::HandoffError;
pub use listener::HandoffListener;
pub use rendezvous::Expected;
pub use source::SourceSession;
pub use terms::{Meeting, Terms};

/// Handoffs that one prefill worker knows at once: those under way and those that wait for their other side.
pub const MAX_HANDOFFS: usize = 16_384;
/// Handoffs that are over or given up and still known, so that whoever comes late is told; the oldest go first.
pub const MAX_PAST_HANDOFFS: usize = 16_384;
/// Connections at once: one per handoff, and some to say to others that there are too many.
pub const MAX_HANDOFF_CONNECTIONS: usize = MAX_HANDOFFS + 256;
