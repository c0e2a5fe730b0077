//! Events never panic, and what is read can be written and read again.
//!
//! The first byte picks the way in: an envelope, KV events, another payload, or a connection over ZMTP. True if all was
//! understood.

use dynosim_wire::event::fuzzing::{envelope, kv_events, payloads, zmtp};

pub(crate) fn check(data: &[u8]) -> bool {
    let Some((way, data)) = data.split_first() else { return false };
    match way % 4 {
        0 => envelope(data),
        1 => kv_events(data),
        2 => payloads(data),
        _ => zmtp(data),
    }
}
