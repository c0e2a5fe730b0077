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

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(path: &[u8], headers: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut bytes = (path.len() as u16).to_be_bytes().to_vec();
        bytes.extend_from_slice(path);
        bytes.extend((headers.len() as u16).to_be_bytes());
        bytes.extend_from_slice(headers);
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn what_is_encoded_is_decoded_and_what_follows_is_left() {
        for (path, headers, payload) in [("1a/ns/c/e", "{}", "payload"), ("", "", ""), ("ü", "{\"a\":\"b\"}", "")] {
            let mut bytes = Vec::new();
            assert!(begin(path, headers.as_bytes(), &mut bytes));
            let start = bytes.len();
            bytes.extend_from_slice(payload.as_bytes());
            assert!(seal(start, &mut bytes));
            assert_eq!(bytes, frame(path.as_bytes(), headers.as_bytes(), payload.as_bytes()));
            let length = bytes.len();
            bytes.extend_from_slice(b"next");
            let (found, used) = decode(&bytes).unwrap().unwrap();
            assert_eq!((found.path, used), (path, length));
            assert_eq!(&bytes[found.headers], headers.as_bytes());
            assert_eq!(&bytes[found.payload], payload.as_bytes());
        }
    }

    #[test]
    fn a_frame_cut_at_any_byte_is_waited_for() {
        let whole = frame("1a/ns/ü/e".as_bytes(), b"{\"request-id\":\"x\"}", &[7; 40]);
        for cut in 0..whole.len() {
            assert_eq!(decode(&whole[..cut]), Ok(None), "cut at {cut}");
        }
        let mut answer_bytes = Vec::new();
        answer("Server unavailable: full", &mut answer_bytes);
        for cut in 0..answer_bytes.len() {
            assert_eq!(decode_answer(&answer_bytes[..cut]), Ok(None), "cut at {cut}");
        }
        assert_eq!(decode_answer(&answer_bytes), Ok(Some((&b"Server unavailable: full"[..], 28))));
    }

    #[test]
    fn lengths_beyond_the_limit_are_refused_before_the_payload_comes() {
        for (length, good) in [
            (0, true),
            (1, true),
            (MAX_MESSAGE_BYTES as u32, true),
            (MAX_MESSAGE_BYTES as u32 + 1, false),
            (u32::MAX / 2, false),
            (u32::MAX, false),
        ] {
            let mut bytes = frame(b"p", b"{}", b"");
            let at = bytes.len() - 4;
            bytes[at..].copy_from_slice(&length.to_be_bytes());
            assert_eq!(decode(&bytes).is_ok(), good, "payload of {length}");
        }
        for (length, good) in
            [(0, true), (MAX_ACK_BYTES as u32, true), (MAX_ACK_BYTES as u32 + 1, false), (u32::MAX, false)]
        {
            assert_eq!(decode_answer(&length.to_be_bytes()).is_ok(), good, "answer of {length}");
        }
    }

    #[test]
    fn paths_that_are_no_text_are_refused_as_soon_as_they_are_whole() {
        for path in [&b"\xff"[..], b"\xc3", b"a\x80b", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"] {
            let bytes = frame(path, b"{}", b"x");
            assert_eq!(decode(&bytes), Err(FrameError::Path), "{path:?}");
            assert_eq!(decode(&bytes[..2 + path.len()]), Err(FrameError::Path), "{path:?} alone");
            assert_eq!(decode(&bytes[..=path.len()]), Ok(None), "{path:?} cut");
        }
    }

    #[test]
    fn what_does_not_fit_is_not_sent() {
        let long = "x".repeat(usize::from(u16::MAX) + 1);
        assert!(!begin(&long, b"", &mut Vec::new()));
        assert!(!begin("", long.as_bytes(), &mut Vec::new()));
        assert!(begin(&long[1..], b"", &mut Vec::new()));
        assert!(!seal(4, &mut vec![0; 4 + MAX_MESSAGE_BYTES + 1]));
        let mut bytes = Vec::new();
        answer(&"x".repeat(MAX_ACK_BYTES + 1), &mut bytes);
        assert_eq!(bytes.len(), 4 + MAX_ACK_BYTES);
    }
}
