//! Parsers of what peers send, for fuzzing. Each says whether all of the bytes were understood.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::envelope::Envelope;
use super::payload::{ForwardPassMetrics, KvMetrics, RecoveryRequest, RecoveryResponse, RouterEvent};
use super::zmtp::frame::Kind;
use super::zmtp::{command, frame, greeting};
use crate::codec::Codec;
use crate::limits::MAX_ZMQ_FRAME_BYTES;

/// Reads an envelope as over NATS; what is read can be written and read again.
pub fn envelope(bytes: &[u8]) -> bool {
    let Ok(envelope) = Envelope::decode(bytes) else { return false };
    let again = envelope.to_bytes();
    assert!(matches!(Envelope::decode(&again), Ok(same) if same == envelope));
    true
}

/// Reads a list of KV events; what is read can be written and read again.
pub fn kv_events(bytes: &[u8]) -> bool {
    let Some((events, again)) = again::<Vec<RouterEvent>>(bytes) else { return false };
    assert_eq!(events, again);
    true
}

/// Reads every other payload: loads, passes, and what routers and workers say about missed events.
pub fn payloads(bytes: &[u8]) -> bool {
    let load = again::<KvMetrics>(bytes).map(|(load, again)| assert_eq!(load, again)).is_some();
    // Its numbers may be no numbers, which differ from themselves.
    let pass = again::<ForwardPassMetrics>(bytes).is_some();
    let request = again::<RecoveryRequest>(bytes).is_some();
    let response = again::<RecoveryResponse>(bytes).is_some();
    load | pass | request | response
}

/// A value, and the same after it was written and read.
fn again<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<(T, T)> {
    let value = Codec::MessagePack.decode::<T>(bytes).ok()?;
    let written = Codec::MessagePack.encode(&value).expect("what was read can be written");
    Some((value, Codec::MessagePack.decode(&written).expect("what was written can be read")))
}

/// Reads a greeting, then frames until one is bad or incomplete: commands and messages.
pub fn zmtp(bytes: &[u8]) -> bool {
    let Some((head, mut rest)) = bytes.split_first_chunk() else { return false };
    let mut understood = greeting::parse(head).is_ok();
    let mut parts = Vec::new();
    while let Ok(Some(frame)) = frame::decode(rest, MAX_ZMQ_FRAME_BYTES) {
        let end = frame.header + frame.body;
        let Some(body) = rest.get(frame.header..end) else { return false };
        let command = command::parse(body).is_ok();
        match frame.kind {
            Kind::Command => understood &= command,
            Kind::Part | Kind::LastPart => parts.push(Bytes::copy_from_slice(body)),
        }
        if frame.kind == Kind::LastPart {
            understood &= Envelope::decode_frames(&std::mem::take(&mut parts)).is_ok();
        }
        rest = &rest[end..];
    }
    understood && rest.is_empty() && parts.is_empty()
}
