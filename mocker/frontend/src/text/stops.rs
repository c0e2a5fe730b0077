//! Texts that end an answer, though tokens split them.

use crate::openai::options::StopText;

/// Watches the text of one answer.
#[derive(Debug, Default)]
pub(crate) struct StopWatch {
    texts: Vec<String>,
    stop_text: StopText,
    /// Text that may be the begin of a stop text, so it is not given out yet.
    held: String,
}

/// Whether the answer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// It does.
    On,
    /// A stop text has come.
    Over,
}

impl StopWatch {
    /// A new answer.
    pub(crate) fn new(texts: Vec<String>, stop_text: StopText) -> Self {
        Self { texts, stop_text, held: String::new() }
    }

    /// Nothing to watch for: text may go past.
    pub(crate) fn is_idle(&self) -> bool {
        self.texts.is_empty()
    }

    /// Takes new text, gives out what cannot belong to a stop text.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) -> Watch {
        self.held.push_str(text);
        if let Some((start, length)) = self.earliest() {
            let end = match self.stop_text {
                StopText::Cut => start,
                StopText::Kept => start + length,
            };
            out.push_str(&self.held[..end]);
            self.held.clear();
            return Watch::Over;
        }
        let keep = self.doubtful();
        let give = self.held.len() - keep;
        out.push_str(&self.held[..give]);
        self.held.drain(..give);
        Watch::On
    }

    /// Gives out what is held, because no text follows or because it may not end the answer yet.
    pub(crate) fn release(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held.clear();
    }

    /// The stop text that begins first; of those, the shortest, since it is complete first.
    fn earliest(&self) -> Option<(usize, usize)> {
        self.texts.iter().filter_map(|stop| Some((self.held.find(stop)?, stop.len()))).min()
    }

    /// Bytes at the end that may be the begin of a stop text.
    fn doubtful(&self) -> usize {
        self.texts.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0)
    }
}

/// Length of the longest end of `text` that `stop` begins with, and is longer than.
fn overlap(text: &str, stop: &str) -> usize {
    let (text, stop) = (text.as_bytes(), stop.as_bytes());
    let longest = text.len().min(stop.len() - 1);
    (1..=longest).rev().find(|length| stop.starts_with(&text[text.len() - length..])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives `text` in pieces of `size` characters; what came out, and how it ended.
    fn run(stops: &[&str], stop_text: StopText, text: &str, size: usize) -> (String, Watch) {
        let mut watch = StopWatch::new(stops.iter().map(ToString::to_string).collect(), stop_text);
        let mut out = String::new();
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(size) {
            if watch.push(&piece.iter().collect::<String>(), &mut out) == Watch::Over {
                return (out, Watch::Over);
            }
        }
        watch.release(&mut out);
        (out, Watch::On)
    }

    #[test]
    fn the_answer_ends_before_the_stop_text_however_it_is_split() {
        let cases: [(&[&str], &str, &str, Watch); 7] = [
            (&["END"], "some text END more", "some text ", Watch::Over),
            (&["END"], "some text EN", "some text EN", Watch::On),
            (&["aab"], "aaab", "a", Watch::Over),
            (&["abab"], "abaabab", "aba", Watch::Over),
            (&["é🦀"], "xé🦀y", "x", Watch::Over),
            (&["bcd", "c"], "abcd", "ab", Watch::Over),
            (&["\n\n"], "a\nb\n\nc", "a\nb", Watch::Over),
        ];
        for (stops, text, expected, end) in cases {
            assert_eq!(run(stops, StopText::Cut, text, 1), (expected.to_owned(), end), "{text:?} by characters");
        }
        for size in 2..8 {
            let (out, end) = run(&["END"], StopText::Cut, "some text END more", size);
            assert_eq!((out.as_str(), end), ("some text ", Watch::Over), "pieces of {size}");
        }
    }

    #[test]
    fn a_kept_stop_text_is_the_end_of_the_answer() {
        assert_eq!(run(&["END"], StopText::Kept, "a END b", 2), ("a END".to_owned(), Watch::Over));
    }

    #[test]
    fn only_what_may_be_a_stop_text_is_held_back() {
        let mut watch = StopWatch::new(vec!["abc".to_owned()], StopText::Cut);
        let mut out = String::new();
        assert_eq!(watch.push("xxab", &mut out), Watch::On);
        assert_eq!(out, "xx");
        assert_eq!(watch.push("ay", &mut out), Watch::On);
        assert_eq!(out, "xxabay");
    }
}
