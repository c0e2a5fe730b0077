//! Frames of the request plane over TCP.
//!
//! ```text
//! request: u16be path length │ path │ u16be header length │ headers │ u32be payload length │ payload
//! answer:  u32be length │ reason; an empty one acknowledges
//! ```

use std::ops::Range;

use crate::limits::{MAX_ACK_BYTES, MAX_MESSAGE_BYTES};
use crate::response::FrameError;

/// A request whose parts are places in the buffer that it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestFrame<'a> {
    pub(crate) path: &'a str,
    pub(crate) headers: Range<usize>,
    pub(crate) payload: Range<usize>,
}

/// The first request of `bytes` and its length; none if it is not whole yet.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(RequestFrame<'_>, usize)>, FrameError> {
    let Some(path) = short_part(bytes, 0) else { return Ok(None) };
    // A whole path that is no text is refused at once: nothing that follows could be trusted.
    let path_text = bytes.get(path.clone()).map(|path| std::str::from_utf8(path).map_err(|_| FrameError::Path));
    let Some(path_text) = path_text.transpose()? else { return Ok(None) };
    let Some(headers) = short_part(bytes, path.end) else { return Ok(None) };
    let Some(length) = number(bytes, headers.end) else { return Ok(None) };
    let payload = part(headers.end + 4, length, "request payload", MAX_MESSAGE_BYTES)?;
    let used = payload.end;
    Ok((used <= bytes.len()).then_some((RequestFrame { path: path_text, headers, payload }, used)))
}

/// The first answer of `bytes` and its length; none if it is not whole yet.
pub(crate) fn decode_answer(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, FrameError> {
    let Some(length) = number(bytes, 0) else { return Ok(None) };
    let reason = part(4, length, "answer to a request", MAX_ACK_BYTES)?;
    Ok(bytes.get(reason.clone()).map(|text| (text, reason.end)))
}

/// Appends what precedes the payload, with a place for its length that [`seal`] fills. False if a part is too long.
#[must_use]
pub(crate) fn begin(path: &str, headers: &[u8], buffer: &mut Vec<u8>) -> bool {
    for part in [path.as_bytes(), headers] {
        let Ok(length) = u16::try_from(part.len()) else { return false };
        buffer.extend_from_slice(&length.to_be_bytes());
        buffer.extend_from_slice(part);
    }
    buffer.extend_from_slice(&[0; 4]);
    true
}

/// Fills in the length of a payload that begins at `start` and ends the buffer. False if it is too long.
#[must_use]
pub(crate) fn seal(start: usize, buffer: &mut [u8]) -> bool {
    let length = buffer.len() - start;
    buffer[start - 4..start].copy_from_slice(&(length as u32).to_be_bytes());
    length <= MAX_MESSAGE_BYTES
}

/// Appends an answer.
pub(crate) fn answer(reason: &str, buffer: &mut Vec<u8>) {
    let reason = &reason.as_bytes()[..reason.len().min(MAX_ACK_BYTES)];
    buffer.extend_from_slice(&(reason.len() as u32).to_be_bytes());
    buffer.extend_from_slice(reason);
}

fn short_part(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let length = bytes.get(at..)?.first_chunk::<2>()?;
    Some(at + 2..at + 2 + usize::from(u16::from_be_bytes(*length)))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk::<4>()?))
}

fn part(start: usize, bytes: u32, part: &'static str, limit: usize) -> Result<Range<usize>, FrameError> {
    let length = bytes as usize;
    if length > limit {
        return Err(FrameError::TooLong { part, bytes: u64::from(bytes), limit });
    }
    Ok(start..start + length)
}
