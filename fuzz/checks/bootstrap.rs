//! The handshake of a handoff never panics, and what is read can be written and read again. True if all was understood.

use dynosim_wire::bootstrap::fuzzing::bootstrap_stream;

pub(crate) fn check(data: &[u8]) -> bool {
    bootstrap_stream(data)
}
