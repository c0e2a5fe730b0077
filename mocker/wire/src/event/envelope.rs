//! The envelope around every payload.
//!
//! Over ZMQ a message has four frames: topic, publisher id, sequence number (both big-endian, 64 bits), and the envelope
//! after a version byte and its length. Over NATS the body is the envelope alone.

use bytes::Bytes;
use serde::Deserialize;

use super::zmtp::frame::{self, Kind};

/// Version of the envelope's frame.
const VERSION: u8 = 1;
/// Bytes before the envelope in its frame.
const PREFIX: usize = 5;

/// A payload with where it comes from: msgpack, a map in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Envelope<'a> {
    pub(crate) publisher_id: u64,
    pub(crate) sequence: u64,
    pub(crate) published_at: u64,
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
}

/// Bytes that are no envelope.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvelopeError {
    #[error("{0} frames in an event (allowed: 4)")]
    Frames(usize),
    #[error("event frame: {0}")]
    Frame(&'static str),
    #[error("event envelope: {0}")]
    Content(#[from] rmp_serde::decode::Error),
}

impl<'a> Envelope<'a> {
    /// Reads the envelope alone.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, EnvelopeError> {
        Ok(rmp_serde::from_slice(bytes)?)
    }

    /// Reads the frames of a ZMQ message.
    pub(crate) fn decode_frames(frames: &'a [Bytes]) -> Result<Self, EnvelopeError> {
        let [topic, publisher, sequence, body] = frames else { return Err(EnvelopeError::Frames(frames.len())) };
        let Some((&[VERSION, ref length @ ..], body)) = body.split_first_chunk::<PREFIX>() else {
            return Err(EnvelopeError::Frame("too short or of another version than 1"));
        };
        if body.len() != u32::from_be_bytes(*length) as usize {
            return Err(EnvelopeError::Frame("length differs from the envelope's"));
        }
        let envelope = Self::decode(body)?;
        let told = (envelope.topic.as_bytes(), envelope.publisher_id.to_be_bytes(), envelope.sequence.to_be_bytes());
        if told != (&topic[..], number(publisher)?, number(sequence)?) {
            return Err(EnvelopeError::Frame("topic, publisher or sequence number differ from the envelope's"));
        }
        Ok(envelope)
    }

    /// Appends the envelope alone.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(FIXMAP_OF_FIVE);
        put_number(out, "publisher_id", self.publisher_id);
        put_number(out, "sequence", self.sequence);
        put_number(out, "published_at", self.published_at);
        put_text(out, "topic");
        put_text(out, self.topic);
        put_text(out, "payload");
        // Writing into memory cannot fail.
        let _ = rmp::encode::write_bin(out, self.payload);
    }

    /// The whole ZMQ message as it goes over the wire.
    pub(crate) fn to_frames(self) -> Bytes {
        let mut body = Vec::with_capacity(self.size_hint());
        self.encode(&mut body);
        let mut out = Vec::with_capacity(body.len() + self.topic.len() + FRAMING);
        frame::put(Kind::Part, self.topic.as_bytes(), &mut out);
        frame::put(Kind::Part, &self.publisher_id.to_be_bytes(), &mut out);
        frame::put(Kind::Part, &self.sequence.to_be_bytes(), &mut out);
        frame::put_header(Kind::LastPart, PREFIX + body.len(), &mut out);
        out.push(VERSION);
        out.extend((body.len() as u32).to_be_bytes());
        out.extend_from_slice(&body);
        out.into()
    }

    /// The envelope alone, as bytes.
    pub(crate) fn to_bytes(self) -> Bytes {
        let mut out = Vec::with_capacity(self.size_hint());
        self.encode(&mut out);
        out.into()
    }

    fn size_hint(&self) -> usize {
        ENVELOPE + self.topic.len() + self.payload.len()
    }
}

const FIXMAP_OF_FIVE: u8 = 0x85;
/// Most bytes of an envelope beside topic and payload.
const ENVELOPE: usize = 96;
/// Most bytes of a message beside topic and envelope.
const FRAMING: usize = 48;

fn number(frame: &[u8]) -> Result<[u8; 8], EnvelopeError> {
    frame.try_into().map_err(|_| EnvelopeError::Frame("publisher or sequence number is not 8 bytes long"))
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let _ = rmp::encode::write_str(out, text);
}

fn put_number(out: &mut Vec<u8>, name: &str, value: u64) {
    put_text(out, name);
    let _ = rmp::encode::write_uint(out, value);
}
