//! The few fields of an answer that a load generator needs, found in one pass without making values of the others.
//!
//! The scan follows the structure of the JSON, so that no text that a model writes can be taken for a field, but it
//! does not check what it skips.

use memchr::memchr2;

/// What one chunk of a stream, or a whole answer, says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Some choice has text in it.
    pub(crate) has_text: bool,
    /// Some choice has a reason why it ended.
    pub(crate) is_finished: bool,
    /// From `usage`.
    pub(crate) prompt_tokens: Option<u32>,
    /// From `usage`.
    pub(crate) completion_tokens: Option<u32>,
    /// From `usage`; a server that has no cache, or does not tell, leaves it out.
    pub(crate) cached_tokens: Option<u32>,
    /// The answer is an error: its message, as JSON wrote it.
    pub(crate) error: Option<String>,
}

/// Scans one JSON object; none if it is no such.
pub(crate) fn scan(bytes: &[u8]) -> Option<Chunk> {
    let mut chunk = Chunk::default();
    let mut cursor = Cursor { bytes, at: 0 };
    cursor.object(|cursor, key| match key {
        b"choices" => cursor.array(|cursor| cursor.object(|cursor, key| choice(cursor, key, &mut chunk))),
        b"usage" => cursor.object(|cursor, key| usage(cursor, key, &mut chunk)),
        b"error" => error(cursor, &mut chunk),
        _ => cursor.skip(),
    })?;
    cursor.blanks();
    (cursor.at == bytes.len()).then_some(chunk)
}

fn choice(cursor: &mut Cursor<'_>, key: &[u8], chunk: &mut Chunk) -> Option<()> {
    match key {
        b"text" => cursor.text(&mut chunk.has_text),
        b"delta" | b"message" => cursor.object(|cursor, key| match key {
            b"content" | b"reasoning_content" | b"reasoning" => cursor.text(&mut chunk.has_text),
            _ => cursor.skip(),
        }),
        b"finish_reason" => {
            chunk.is_finished |= cursor.peek()? != b'n';
            cursor.skip()
        }
        _ => cursor.skip(),
    }
}

fn usage(cursor: &mut Cursor<'_>, key: &[u8], chunk: &mut Chunk) -> Option<()> {
    match key {
        b"prompt_tokens" => cursor.number(&mut chunk.prompt_tokens),
        b"completion_tokens" => cursor.number(&mut chunk.completion_tokens),
        b"prompt_tokens_details" => cursor.object(|cursor, key| match key {
            b"cached_tokens" => cursor.number(&mut chunk.cached_tokens),
            _ => cursor.skip(),
        }),
        _ => cursor.skip(),
    }
}

fn error(cursor: &mut Cursor<'_>, chunk: &mut Chunk) -> Option<()> {
    let lossy = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    match cursor.peek()? {
        b'n' => cursor.skip(),
        b'{' => {
            let mut message = String::new();
            cursor.object(|cursor, key| {
                if key == b"message" && cursor.peek()? == b'"' {
                    message = lossy(cursor.string()?);
                    return Some(());
                }
                cursor.skip()
            })?;
            chunk.error = Some(message);
            Some(())
        }
        b'"' => {
            chunk.error = Some(lossy(cursor.string()?));
            Some(())
        }
        _ => {
            chunk.error = Some(String::new());
            cursor.skip()
        }
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn blanks(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// The first byte of what comes next.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Calls `field` at the value of each field of an object; `null` has none.
    fn object(&mut self, mut field: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        if self.peek()? == b'n' {
            return self.skip();
        }
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            return self.expect(b'}');
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            field(self, key)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => return self.expect(b'}'),
                _ => return None,
            }
        }
    }

    /// Calls `element` at each element of an array; `null` has none.
    fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if self.peek()? == b'n' {
            return self.skip();
        }
        self.expect(b'[')?;
        if self.peek()? == b']' {
            return self.expect(b']');
        }
        loop {
            element(self)?;
            match self.peek()? {
                b',' => self.at += 1,
                b']' => return self.expect(b']'),
                _ => return None,
            }
        }
    }

    /// A string as it is written, escapes and all.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            self.at += memchr2(b'"', b'\\', self.bytes.get(self.at..)?)?;
            if self.bytes[self.at] == b'"' {
                self.at += 1;
                return Some(&self.bytes[start..self.at - 1]);
            }
            self.at += 2;
        }
    }

    /// Notes whether a string, or null, has anything in it.
    fn text(&mut self, has_text: &mut bool) -> Option<()> {
        if self.peek()? != b'"' {
            return self.skip();
        }
        *has_text |= !self.string()?.is_empty();
        Some(())
    }

    /// A whole number, or null.
    fn number(&mut self, into: &mut Option<u32>) -> Option<()> {
        self.blanks();
        let start = self.at;
        self.skip()?;
        *into = std::str::from_utf8(&self.bytes[start..self.at]).ok()?.parse().ok();
        Some(())
    }

    /// Passes any value.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                b',' | b':' => return None,
                _ => self.word(),
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Passes a number or a name.
    fn word(&mut self) {
        let ends = |byte: &u8| b",:{}[]\"".contains(byte) || byte.is_ascii_whitespace();
        while self.bytes.get(self.at).is_some_and(|byte| !ends(byte)) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> Chunk {
        scan(text.as_bytes()).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn chunks_of_both_routes_are_read() {
        let completion =
            r#"{"id":"cmpl-1","choices":[{"text":"a\"}","index":0,"logprobs":null,"finish_reason":null}]}"#;
        assert_eq!(found(completion), Chunk { has_text: true, ..Chunk::default() });
        let first =
            r#"{"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": null}], "usage": null}"#;
        assert_eq!(found(first), Chunk::default());
        let last = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#;
        assert_eq!(found(last), Chunk { is_finished: true, ..Chunk::default() });
        let thought = r#"{"choices":[{"index":0,"delta":{"reasoning_content":"so","content":null}}]}"#;
        assert!(found(thought).has_text);
        let usage = r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"audio_tokens":null,"cached_tokens":64}}}"#;
        let expected = (Some(100), Some(7), Some(64));
        let chunk = found(usage);
        assert_eq!((chunk.prompt_tokens, chunk.completion_tokens, chunk.cached_tokens), expected);
    }

    #[test]
    fn no_text_is_taken_for_a_field() {
        let text = r#"{"choices":[{"text":"\",\"finish_reason\":\"stop\",\"usage\":{\"prompt_tokens\":9}"}],"x":{"usage":{"prompt_tokens":3}}}"#;
        assert_eq!(found(text), Chunk { has_text: true, ..Chunk::default() });
    }

    #[test]
    fn errors_of_all_shapes_are_seen() {
        let message = |text| found(text).error;
        assert_eq!(message(r#"{"error":{"message":"no room","code":500}}"#), Some("no room".to_owned()));
        assert_eq!(message(r#"{"error":"gone"}"#), Some("gone".to_owned()));
        assert_eq!(message(r#"{"error":null}"#), None);
        assert_eq!(message(r#"{"error":true}"#), Some(String::new()));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["", "[]", "{", r#"{"a"}"#, r#"{"choices":[{"text":"x"}]"#, r#"{"choices":["#, "{} x", r#"{"a":"\"#]
        {
            assert_eq!(scan(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = scan(&bytes);
        }

        #[test]
        fn any_text_counts_as_text_and_nothing_else(text in ".{1,40}", deep in 0usize..4) {
            let other = (0..deep).fold(serde_json::json!({"t": text}), |inner, _| serde_json::json!([inner, {"choices": text}]));
            let json = serde_json::json!({"a": other, "choices": [{"text": text, "logprobs": other}], "z": other});
            prop_assert_eq!(found(&json.to_string()), Chunk { has_text: true, ..Chunk::default() });
        }
    }
}
