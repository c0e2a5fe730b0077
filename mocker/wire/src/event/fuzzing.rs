//! Parsers of what peers send, for fuzzing.

use super::envelope::Envelope;
use super::payload::RouterEvent;
use super::zmtp::{command, frame, greeting};
use crate::codec::Codec;
use crate::limits::MAX_ZMQ_FRAME_BYTES;

/// Reads an envelope as over NATS.
pub fn envelope(bytes: &[u8]) {
    let _ = Envelope::decode(bytes);
}

/// Reads a list of KV events.
pub fn kv_events(bytes: &[u8]) {
    let _ = Codec::MessagePack.decode::<Vec<RouterEvent>>(bytes);
}

/// Reads a greeting, then frames until one is bad or incomplete; their bodies also as commands.
pub fn zmtp(mut bytes: &[u8]) {
    if let Some((head, rest)) = bytes.split_first_chunk() {
        let _ = greeting::parse(head);
        bytes = rest;
    }
    while let Ok(Some(frame)) = frame::decode(bytes, MAX_ZMQ_FRAME_BYTES) {
        let Some(body) = bytes.get(frame.header..frame.header + frame.body) else { return };
        let _ = command::parse(body);
        bytes = &bytes[frame.header + frame.body..];
    }
}
