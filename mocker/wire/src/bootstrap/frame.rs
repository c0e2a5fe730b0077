//! Frames of the handshake: bytes in, messages out.

use super::message::Frame;
use crate::limits::MAX_BOOTSTRAP_FRAME_BYTES;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 8;
/// What the side that dials sends first: a name, version 1, no flags.
pub const HEADER: [u8; HEADER_BYTES] = *b"DMHF\x01\x00\x00\x00";
/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// Bytes that are no handshake.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Something else is speaking.
    #[error("handshake header begins with {0:02x?} (allowed: \"DMHF\")")]
    Name([u8; 4]),
    /// A later release.
    #[error("handshake version {0} is not spoken (allowed: 1)")]
    Version(u16),
    /// A later release.
    #[error("handshake flags {0:#06x} are not known (allowed: 0)")]
    Flags(u16),
    /// Too long; or empty, which no message is.
    #[error("handshake frame of {0} bytes (allowed: 1 to {MAX_BOOTSTRAP_FRAME_BYTES})")]
    Length(usize),
    /// Not a message.
    #[error("handshake frame is not a known message: {0}")]
    Json(#[from] serde_json::Error),
}

/// Reads the header.
pub fn check_header(header: &[u8; HEADER_BYTES]) -> Result<(), FrameError> {
    let [a, b, c, d, version @ .., flags_low, flags_high] = *header;
    if [a, b, c, d] != HEADER[..4] {
        return Err(FrameError::Name([a, b, c, d]));
    }
    let (version, flags) = (u16::from_le_bytes(version), u16::from_le_bytes([flags_low, flags_high]));
    match (version, flags) {
        (1, 0) => Ok(()),
        (1, flags) => Err(FrameError::Flags(flags)),
        (version, _) => Err(FrameError::Version(version)),
    }
}

/// The frame at the start of `bytes` and how long it is; none if it has not come whole.
pub fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, FrameError> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > MAX_BOOTSTRAP_FRAME_BYTES {
        return Err(FrameError::Length(length));
    }
    let Some(body) = rest.get(..length) else { return Ok(None) };
    Ok(Some((serde_json::from_slice(body)?, LENGTH_BYTES + length)))
}

/// Appends a frame; one that is too long is refused and nothing appended.
pub fn encode_into(frame: &Frame, buffer: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; LENGTH_BYTES]);
    let written = serde_json::to_writer(&mut *buffer, frame);
    let length = buffer.len() - start - LENGTH_BYTES;
    let refused = match written {
        Err(error) => Some(FrameError::Json(error)),
        Ok(()) => (length > MAX_BOOTSTRAP_FRAME_BYTES).then_some(FrameError::Length(length)),
    };
    if let Some(error) = refused {
        buffer.truncate(start);
        return Err(error);
    }
    buffer[start..start + LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}
