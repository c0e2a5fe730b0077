//! Where the bytes of a trace come from.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

/// How a file begins that is compressed with gzip.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Most bytes that one compressed file may become.
const INFLATED_MAX: u64 = 4 << 30;

/// A trace that can be read from any offset, as often as needed.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A regular file; what was read is not kept.
    File(Arc<File>),
    /// What came from a pipe or from the caller.
    Memory(Arc<[u8]>),
}

impl Source {
    /// Opens a file; `-` and whatever is no regular file is read to its end into memory.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        if path == Path::new("-") {
            io::stdin().lock().read_to_end(&mut bytes)?;
            return Ok(Self::Memory(bytes.into()));
        }
        let mut file = File::open(path)?;
        if file.metadata()?.is_file() {
            return Ok(Self::File(Arc::new(file)));
        }
        file.read_to_end(&mut bytes)?;
        Ok(Self::Memory(bytes.into()))
    }

    /// What is compressed with gzip, in memory and inflated; all else as it is.
    pub(crate) fn inflated(self) -> io::Result<Self> {
        let mut magic = [0; 2];
        if self.read_at(0, &mut magic).is_err() || magic != GZIP_MAGIC {
            return Ok(self);
        }
        let mut bytes = Vec::new();
        MultiGzDecoder::new(self.stream()).take(INFLATED_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > INFLATED_MAX {
            return Err(io::Error::other(format!("it becomes more than {INFLATED_MAX} bytes (allowed: up to that)")));
        }
        Ok(Self::Memory(bytes.into()))
    }

    /// Reads from the first byte on.
    pub(crate) fn stream(&self) -> Stream {
        match self {
            Self::File(file) => Stream::File { file: Arc::clone(file), offset: 0 },
            Self::Memory(bytes) => Stream::Memory(Cursor::new(Arc::clone(bytes))),
        }
    }

    /// Fills `buffer` with what starts at `offset`; fails if there is less.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(buffer, offset),
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let found = bytes.get(start..).and_then(|rest| rest.get(..buffer.len()));
                buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// A sequential reader with a position of its own.
#[derive(Debug)]
pub(crate) enum Stream {
    File { file: Arc<File>, offset: u64 },
    Memory(Cursor<Arc<[u8]>>),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File { file, offset } => {
                let count = file.read_at(buffer, *offset)?;
                *offset += count as u64;
                Ok(count)
            }
            Self::Memory(cursor) => cursor.read(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn files_and_memory_read_alike() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"0123456789").unwrap();
        let sources = [Source::open(file.path()).unwrap(), Source::Memory((*b"0123456789").into())];
        for source in sources {
            let mut text = String::new();
            source.stream().read_to_string(&mut text).unwrap();
            assert_eq!(text, "0123456789");
            let mut part = [0; 3];
            source.read_at(7, &mut part).unwrap();
            assert_eq!(&part, b"789");
            assert!(source.read_at(8, &mut part).is_err());
        }
    }
}
