//! What a prefill and a decode worker say to each other while KV changes hands, and its form on the wire.
//!
//! ```text
//!   decode (destination, dials)                 prefill (source, listens)
//!     header, Register ─────────────────────────►
//!     ◄───────────────────────────────── Registered
//!     ◄────── Fact SourceHeld, Action ReserveDestination      (the other way round where the destination goes first)
//!     ActionAck Accepted, Fact DestinationReserved ───►
//!     ◄───────── Action ActivateDestination                   (once the transfer's time is over)
//!     ActionAck Applied ────────────────────────►
//!     ◄──────────────────────────────────── Complete
//! ```
//!
//! A connection begins with [`HEADER`] from the side that dials; all else, both ways, is frames: a length (u32, little
//! endian) and that much JSON. A length above [`MAX_BOOTSTRAP_FRAME_BYTES`] is refused before anything of the frame is
//! read. `docs/contract-handoff.md` says what was recorded of the release that this follows.
//!
//! [`MAX_BOOTSTRAP_FRAME_BYTES`]: crate::limits::MAX_BOOTSTRAP_FRAME_BYTES

mod frame;
mod message;
#[cfg(test)]
mod tests;

pub use frame::{FrameError, HEADER, HEADER_BYTES, check_header, decode, encode_into};
pub use message::{
    Action, EngineType, Fact, Frame, Identity, IssuedAction, Message, Order, Outcome, Participant, Registration,
    Subject, TransferTiming,
};

/// What a fuzzer feeds: bytes of a connection from the side that dials.
#[doc(hidden)]
pub mod fuzzing {
    /// Reads a header and frames until something is wrong; whatever is read can be written and read again. Says
    /// whether all of the bytes were understood.
    pub fn bootstrap_stream(bytes: &[u8]) -> bool {
        let Some((header, mut rest)) = bytes.split_first_chunk() else { return false };
        if super::check_header(header).is_err() {
            return false;
        }
        while let Ok(Some((frame, used))) = super::decode(rest) {
            let mut again = Vec::new();
            if super::encode_into(&frame, &mut again).is_ok() {
                assert!(matches!(super::decode(&again), Ok(Some((same, _))) if same == frame));
            }
            rest = &rest[used..];
        }
        rest.is_empty()
    }
}
