//! Splitting a stream of bytes into lines without an allocation per line.

use std::io::{self, Read};

/// The longest line accepted, in bytes without its line break.
pub const MAX_LINE_BYTES: usize = 16 << 20;

const BUFFER_BYTES: usize = 256 << 10;

/// A line and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Without the line break.
    pub(crate) bytes: &'a [u8],
    /// 1-based number of the line.
    pub(crate) number: u64,
    /// Offset of its first byte in the stream.
    pub(crate) offset: u64,
}

/// Why there is no next line.
#[derive(Debug)]
pub(crate) enum LineError {
    Io(io::Error),
    /// The line with this number is longer than [`MAX_LINE_BYTES`].
    TooLong(u64),
}

/// Yields the lines that hold more than white space.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// The bytes of the buffer not yet yielded.
    start: usize,
    end: usize,
    /// Offset of `buffer[start]` in the stream.
    offset: u64,
    number: u64,
    ended: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, offset: 0, number: 0, ended: false }
    }

    /// Offset after the last line yielded: the length of the stream at its end.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next line that is not blank.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, LineError> {
        while let Some((length, consumed)) = self.find()? {
            let (start, offset) = (self.start, self.offset);
            self.start += consumed;
            self.offset += consumed as u64;
            if !self.buffer[start..start + length].trim_ascii().is_empty() {
                let bytes = &self.buffer[start..start + length];
                return Ok(Some(Line { bytes, number: self.number, offset }));
            }
        }
        Ok(None)
    }

    /// Brings one whole line into the buffer: its length without and with the line break.
    fn find(&mut self) -> Result<Option<(usize, usize)>, LineError> {
        let mut searched = 0;
        self.number += 1;
        loop {
            let unsearched = &self.buffer[self.start + searched..self.end];
            let found = memchr::memchr(b'\n', unsearched).map(|at| searched + at);
            let length = found.unwrap_or(self.end - self.start);
            if length > MAX_LINE_BYTES {
                return Err(LineError::TooLong(self.number));
            }
            match found {
                Some(length) => return Ok(Some((length, length + 1))),
                None if self.ended => return Ok((length > 0).then_some((length, length))),
                None => {
                    searched = length;
                    self.fill().map_err(LineError::Io)?;
                }
            }
        }
    }

    /// Reads more, after making room.
    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out a few bytes at a time.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(buffer.len()).min(3);
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn all(text: &[u8]) -> Vec<(Vec<u8>, u64, u64)> {
        let mut lines = Lines::new(Trickle(text));
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push((line.bytes.to_vec(), line.number, line.offset));
        }
        found
    }

    #[test]
    fn blank_lines_are_skipped_but_counted() {
        let found = all(b"\nabcdef\r\n \t\n\ngh");
        assert_eq!(found, [(b"abcdef\r".to_vec(), 2, 1), (b"gh".to_vec(), 5, 13)]);
    }

    #[test]
    fn the_last_line_may_lack_its_break_and_nothing_is_no_line() {
        assert_eq!(all(b"a\nb\n"), all(b"a\nb"));
        assert!(all(b"").is_empty());
    }

    #[test]
    fn lines_longer_than_the_buffer_are_whole_up_to_the_limit() {
        let mut text = vec![b'x'; MAX_LINE_BYTES];
        text.extend_from_slice(b"\nnext");
        let mut lines = Lines::new(&text[..]);
        assert_eq!(lines.next().unwrap().unwrap().bytes.len(), MAX_LINE_BYTES);
        assert_eq!(lines.next().unwrap().unwrap().bytes, b"next");
        text.insert(0, b'x');
        assert!(matches!(Lines::new(&text[..]).next(), Err(LineError::TooLong(1))));
    }
}
