//! Lines of an event stream.
//!
//! Each `data` line is taken as one event: no server splits its JSON over several. Lines may end in CR LF or LF.

use memchr::memchr;

use crate::failure::Failure;
use crate::limits::LINE_MAX;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line<'b> {
    /// Data.
    Data(&'b [u8]),
    /// `[DONE]`: no more data comes.
    Done,
    /// The event is named `error`; what it is about may follow.
    Error,
    /// A comment: Dynamo puts the text of an error there.
    Comment(&'b [u8]),
    /// Nothing that matters.
    Other,
}

/// Puts lines together that come in pieces.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The start of a line whose end has not come.
    started: Vec<u8>,
}

impl Lines {
    /// Calls `line` with each line that is whole with these bytes.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut line: impl FnMut(Line<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        while let Some(end) = memchr(b'\n', bytes) {
            let (head, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if self.started.is_empty() {
                line(classify(head))?;
                continue;
            }
            self.keep(head)?;
            line(classify(&self.started))?;
            self.started.clear();
        }
        self.keep(bytes)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.started.len() + bytes.len() > LINE_MAX {
            return Err(Failure::malformed(format!("a line of the event stream has more than {LINE_MAX} bytes")));
        }
        self.started.extend_from_slice(bytes);
        Ok(())
    }
}

fn classify(line: &[u8]) -> Line<'_> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let value = |prefix: &[u8]| line.strip_prefix(prefix).map(<[u8]>::trim_ascii);
    if let Some(data) = value(b"data:") {
        return if data == b"[DONE]" { Line::Done } else { Line::Data(data) };
    }
    match (value(b"event:"), value(b":")) {
        (Some(b"error"), _) => Line::Error,
        (_, Some(comment)) => Line::Comment(comment),
        _ => Line::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(parts: &[&str]) -> Result<Vec<String>, Failure> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for part in parts {
            lines.feed(part.as_bytes(), |line| {
                found.push(format!("{line:?}"));
                Ok(())
            })?;
        }
        Ok(found)
    }

    #[test]
    fn lines_are_told_apart_wherever_reads_cut_them() {
        let text = "data: {\"a\":1}\r\n\r\nevent: error\n: why\ndata:[DONE]\nid: 7\n";
        let whole = data(&[text]).unwrap();
        assert_eq!(whole.len(), 6);
        assert_eq!((whole[2].as_str(), whole[4].as_str(), whole[5].as_str()), ("Error", "Done", "Other"));
        for cut in 1..text.len() {
            assert_eq!(data(&[&text[..cut], &text[cut..]]).unwrap(), whole, "{cut}");
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let long = "x".repeat(LINE_MAX / 2 + 1);
        assert_eq!(data(&["data: ", &long]), Ok(vec![]));
        assert!(data(&[&long, &long]).is_err());
    }
}
