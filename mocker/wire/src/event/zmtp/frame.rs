//! Frames: what a ZMTP connection carries after the greeting.

use super::ZmtpError;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A command of the protocol.
    Command,
    /// A part of a message; more follow.
    Part,
    /// The last part of a message.
    LastPart,
}

/// A frame in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    /// Bytes before the body.
    pub(crate) header: usize,
    /// Bytes of the body.
    pub(crate) body: usize,
}

/// The frame at the start of `bytes`; none if its header is not there yet. The body may still be missing: its length is
/// known, and checked, before anybody makes room for it.
pub(crate) fn decode(bytes: &[u8], limit: usize) -> Result<Option<Frame>, ZmtpError> {
    let Some((&flags, rest)) = bytes.split_first() else { return Ok(None) };
    let kind = match flags & !LONG {
        0 => Kind::LastPart,
        MORE => Kind::Part,
        COMMAND => Kind::Command,
        _ => return Err(ZmtpError::Flags(flags)),
    };
    let (header, length) = if flags & LONG == 0 {
        let Some(&length) = rest.first() else { return Ok(None) };
        (2, u64::from(length))
    } else {
        let Some(length) = rest.first_chunk() else { return Ok(None) };
        (9, u64::from_be_bytes(*length))
    };
    match usize::try_from(length) {
        Ok(body) if body <= limit => Ok(Some(Frame { kind, header, body })),
        _ => Err(ZmtpError::TooLong { bytes: length, limit }),
    }
}

/// Appends the header of a frame whose body of `length` bytes follows.
pub(crate) fn put_header(kind: Kind, length: usize, out: &mut Vec<u8>) {
    let flags = match kind {
        Kind::Command => COMMAND,
        Kind::Part => MORE,
        Kind::LastPart => 0,
    };
    if let Ok(short) = u8::try_from(length) {
        out.extend([flags, short]);
    } else {
        out.push(flags | LONG);
        out.extend((length as u64).to_be_bytes());
    }
}

/// Appends a frame.
pub(crate) fn put(kind: Kind, body: &[u8], out: &mut Vec<u8>) {
    put_header(kind, body.len(), out);
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_read_back_as_written_and_short_ones_have_short_headers() {
        for (kind, length, header) in [(Kind::Part, 0, 2), (Kind::LastPart, 255, 2), (Kind::Command, 256, 9)] {
            let mut bytes = Vec::new();
            put(kind, &vec![7; length], &mut bytes);
            assert_eq!(bytes.len(), header + length);
            assert_eq!(decode(&bytes, 256).unwrap(), Some(Frame { kind, header, body: length }));
            for cut in 0..header {
                assert_eq!(decode(&bytes[..cut], 256).unwrap(), None, "{cut} bytes of the header");
            }
        }
    }

    #[test]
    fn a_long_header_may_announce_a_short_body() {
        let bytes = [LONG | MORE, 0, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3];
        assert_eq!(decode(&bytes, 10).unwrap(), Some(Frame { kind: Kind::Part, header: 9, body: 3 }));
    }

    #[test]
    fn bad_frames_are_refused_before_their_body_arrives() {
        let cases: [(&[u8], &str); 6] = [
            (&[0x08, 0], "frame flags 0x08"),
            (&[0x80, 0], "frame flags 0x80"),
            (&[COMMAND | MORE, 1], "frame flags 0x05"),
            (&[0, 101], "101 bytes"),
            (&[LONG, 0, 0, 0, 0, 0, 0, 0, 101], "101 bytes"),
            (&[LONG, 255, 255, 255, 255, 255, 255, 255, 255], "18446744073709551615 bytes"),
        ];
        for (bytes, expected) in cases {
            let error = decode(bytes, 100).unwrap_err().to_string();
            assert!(error.contains(expected), "{bytes:?}: {error}");
        }
    }
}
