//! Two-part frames: a header in JSON, a body in any encoding, either may be empty.
//!
//! ```text
//! u64be header length │ u64be body length │ u64be checksum │ header │ body
//! ```

use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{MAX_CONTROL_BYTES, MAX_HEADER_BYTES, MAX_MESSAGE_BYTES};

/// Bytes before the header.
pub(crate) const PREFIX_BYTES: usize = 24;

/// A frame that breaks the rules; the connection that it came over is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A part is longer than allowed.
    #[error("{part} of {bytes} bytes, {limit} are allowed")]
    TooLong {
        /// Which part.
        part: &'static str,
        /// Its announced length.
        bytes: u64,
        /// The limit.
        limit: usize,
    },
    /// The parts are not what the sender hashed.
    #[error("frame with checksum {found:#x}, its parts have {expected:#x}")]
    Checksum {
        /// In the frame.
        found: u64,
        /// As computed.
        expected: u64,
    },
    /// A path that is no text.
    #[error("path is not UTF-8")]
    Path,
    /// A payload ends before its parts do, or goes on after them.
    #[error("payload of {bytes} bytes, its parts need {needed}")]
    Length {
        /// As received.
        bytes: usize,
        /// As announced inside.
        needed: u64,
    },
}

/// What one reader accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) header: usize,
    pub(crate) body: usize,
}

/// Of requests and their answers.
pub(crate) const MESSAGE: Limits = Limits { header: MAX_HEADER_BYTES, body: MAX_MESSAGE_BYTES };
/// Of whom nothing is known yet, and of words from a frontend.
pub(crate) const CONTROL: Limits = Limits { header: MAX_CONTROL_BYTES, body: MAX_CONTROL_BYTES };

/// A whole frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) header: &'a [u8],
    pub(crate) body: &'a [u8],
}

/// The first frame of `bytes` and its length; none if it is not whole yet. Lengths are judged before anything else, so
/// that a reader never makes room for a frame that is refused.
pub(crate) fn decode(bytes: &[u8], limits: Limits) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    let header = checked(field(prefix, 0), "frame header", limits.header)?;
    let body = checked(field(prefix, 8), "frame body", limits.body)?;
    let Some(parts) = rest.get(..header + body) else { return Ok(None) };
    let found = field(prefix, 16);
    // Release builds of the peers send no checksum.
    if found != 0 {
        let expected = xxh3_64(parts);
        if found != expected {
            return Err(FrameError::Checksum { found, expected });
        }
    }
    let (header, body) = parts.split_at(header);
    Ok(Some((Frame { header, body }, PREFIX_BYTES + parts.len())))
}

/// Bytes that a frame of which only the beginning is there will have.
pub(crate) fn announced(bytes: &[u8]) -> u64 {
    let parts = |prefix| field(prefix, 0).saturating_add(field(prefix, 8));
    bytes.first_chunk().map_or(0, parts).saturating_add(PREFIX_BYTES as u64)
}

/// Appends a frame of two known parts.
pub(crate) fn encode(header: &[u8], body: &[u8], buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(&prefix(header.len(), body.len()));
    buffer.extend_from_slice(header);
    buffer.extend_from_slice(body);
}

/// What precedes the parts.
pub(crate) fn prefix(header: usize, body: usize) -> [u8; PREFIX_BYTES] {
    let mut prefix = [0; PREFIX_BYTES];
    prefix[..8].copy_from_slice(&(header as u64).to_be_bytes());
    prefix[8..16].copy_from_slice(&(body as u64).to_be_bytes());
    prefix
}

fn field(prefix: &[u8; PREFIX_BYTES], at: usize) -> u64 {
    prefix[at..at + 8].iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn checked(bytes: u64, part: &'static str, limit: usize) -> Result<usize, FrameError> {
    usize::try_from(bytes).ok().filter(|length| *length <= limit).ok_or(FrameError::TooLong { part, bytes, limit })
}
