//! Where a body ends: by its length, by chunks, or with the connection.

use crate::failure::Failure;
use crate::limits::LINE_MAX;

/// Framing of a body, and how far it has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// So many bytes are left.
    Sized(u64),
    /// In chunks.
    Chunked(Chunks),
    /// All that comes.
    UntilClose,
}

/// Place within a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunks {
    /// In the size of a chunk; no digit yet, if none.
    Size(Option<u64>),
    /// Behind the size, up to the line's end; `read` bytes of it so far.
    SizeRest { size: u64, read: u32 },
    /// So many bytes of the chunk are left.
    Data(u64),
    /// Before the line end behind a chunk.
    DataEnd,
    /// In the lines after the last chunk: bytes of this line, and of all.
    Trailer { line: u32, read: u32 },
    /// Behind it all.
    Over,
}

/// A step through a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'b> {
    /// Content.
    Data(&'b [u8]),
    /// All bytes are used up.
    More,
    /// The body is over.
    End,
}

impl Body {
    pub(crate) fn sized(length: u64) -> Self {
        Self::Sized(length)
    }

    pub(crate) fn chunked() -> Self {
        Self::Chunked(Chunks::Size(None))
    }

    /// Takes the next piece off the front of `bytes`.
    pub(crate) fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Result<Piece<'b>, Failure> {
        match self {
            Self::Sized(0) => Ok(Piece::End),
            _ if bytes.is_empty() => Ok(Piece::More),
            Self::Sized(left) => Ok(Piece::Data(take(bytes, left))),
            Self::UntilClose => Ok(Piece::Data(std::mem::take(bytes))),
            Self::Chunked(chunks) => chunks.next(bytes),
        }
    }
}

/// Takes up to `left` bytes.
fn take<'b>(bytes: &mut &'b [u8], left: &mut u64) -> &'b [u8] {
    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
    let (data, rest) = bytes.split_at(count);
    *bytes = rest;
    *left -= count as u64;
    data
}

impl Chunks {
    fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Result<Piece<'b>, Failure> {
        loop {
            if let Self::Data(left) = self {
                let data = take(bytes, left);
                if *left == 0 {
                    *self = Self::DataEnd;
                }
                if !data.is_empty() {
                    return Ok(Piece::Data(data));
                }
            }
            if *self == Self::Over {
                return Ok(Piece::End);
            }
            let Some((&byte, rest)) = bytes.split_first() else { return Ok(Piece::More) };
            *bytes = rest;
            *self = self.after(byte)?;
        }
    }

    /// The place behind a byte that is no content.
    fn after(self, byte: u8) -> Result<Self, Failure> {
        let wrong = |what: &str| Err(Failure::malformed(format!("a chunk of the response has {what}")));
        match self {
            Self::Size(size) => match ((byte as char).to_digit(16), size) {
                (Some(digit), _) if size.unwrap_or(0) < 1 << 56 => {
                    Ok(Self::Size(Some(size.unwrap_or(0) << 4 | u64::from(digit))))
                }
                (Some(_), _) => wrong("a size beyond all limits"),
                (None, Some(size)) if byte == b'\n' => Ok(Self::of_size(size)),
                (None, Some(size)) if b"\r; \t".contains(&byte) => Ok(Self::SizeRest { size, read: 1 }),
                (None, _) => wrong("no size"),
            },
            Self::SizeRest { size, .. } if byte == b'\n' => Ok(Self::of_size(size)),
            Self::SizeRest { read, .. } if read as usize > LINE_MAX => wrong("an extension beyond all limits"),
            Self::SizeRest { size, read } => Ok(Self::SizeRest { size, read: read + 1 }),
            Self::DataEnd if byte == b'\r' => Ok(Self::DataEnd),
            Self::DataEnd if byte == b'\n' => Ok(Self::Size(None)),
            Self::DataEnd => wrong("more bytes than its size says"),
            Self::Trailer { line: 0, .. } if byte == b'\n' => Ok(Self::Over),
            Self::Trailer { read, .. } if read as usize > LINE_MAX => wrong("trailers beyond all limits"),
            Self::Trailer { read, .. } if byte == b'\n' => Ok(Self::Trailer { line: 0, read: read + 1 }),
            Self::Trailer { line, read } if byte == b'\r' => Ok(Self::Trailer { line, read: read + 1 }),
            Self::Trailer { line, read } => Ok(Self::Trailer { line: line + 1, read: read + 1 }),
            Self::Data(_) | Self::Over => Ok(self),
        }
    }

    fn of_size(size: u64) -> Self {
        if size == 0 { Self::Trailer { line: 0, read: 0 } } else { Self::Data(size) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a body that comes in parts; gives its content, whether it is over, and the bytes behind it.
    fn read(mut body: Body, parts: &[&[u8]]) -> Result<(Vec<u8>, bool, usize), Failure> {
        let mut content = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let mut bytes = *part;
            loop {
                match body.next(&mut bytes)? {
                    Piece::Data(data) => content.extend(data),
                    Piece::More => break,
                    Piece::End => {
                        let behind = bytes.len() + parts[index + 1..].iter().map(|part| part.len()).sum::<usize>();
                        return Ok((content, true, behind));
                    }
                }
            }
        }
        Ok((content, false, 0))
    }

    proptest! {
        #[test]
        fn chunks_are_put_together_wherever_reads_cut_them(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..6),
            cuts in proptest::collection::vec(1usize..30, 1..60),
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend(format!("{:X};x=1\r\n", chunk.len()).bytes().chain(chunk.iter().copied()).chain(*b"\r\n"));
            }
            wire.extend(b"0\r\nTrailer: x\r\n\r\nrest");
            let mut parts = Vec::new();
            let mut left = &wire[..];
            for cut in cuts.into_iter().cycle() {
                if left.is_empty() { break; }
                let (part, rest) = left.split_at(cut.min(left.len()));
                parts.push(part);
                left = rest;
            }
            prop_assert_eq!(read(Body::chunked(), &parts).unwrap(), (chunks.concat(), true, 4));
        }
    }

    #[test]
    fn bodies_end_by_length_or_not_at_all() {
        assert_eq!(read(Body::sized(5), &[b"ab", b"cdef"]).unwrap(), (b"abcde".to_vec(), true, 1));
        assert_eq!(read(Body::sized(5), &[b"ab"]).unwrap(), (b"ab".to_vec(), false, 0));
        assert_eq!(read(Body::UntilClose, &[b"ab", b"c"]).unwrap(), (b"abc".to_vec(), false, 0));
    }

    #[test]
    fn chunks_that_are_none_are_refused() {
        for wire in ["x\r\n", "\r\n", "-1\r\n", "3\r\nabcd\r\n", "fffffffffffffffff\r\n"] {
            assert!(read(Body::chunked(), &[wire.as_bytes()]).is_err(), "{wire:?}");
        }
    }
}
