//! Answers as bytes. Their shapes, the order of their fields included, are those of `dynamo-llm` 1.6.1.
//!
//! Chunks are written by hand: what is the same in all chunks of an answer is made once, and a token costs the copy of
//! about 200 bytes and the escaping of its text.

use bytes::{BufMut, BytesMut};

use super::error::ApiError;
use crate::http::service::Endpoint;

/// Ends a stream.
pub(crate) const DONE: &[u8] = b"data: [DONE]\n\n";

/// Token counts of an answer.
#[allow(clippy::struct_field_names, reason = "named as the API names them")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Tokens of the prompt.
    pub(crate) prompt_tokens: u32,
    /// Tokens of the answer.
    pub(crate) completion_tokens: u32,
    /// Tokens of the prompt that the worker had, if it said so.
    pub(crate) cached_tokens: Option<u32>,
    /// Tokens of the answer that were thought, if the worker said so.
    pub(crate) reasoning_tokens: Option<u32>,
}

/// Why an answer ended, as clients read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// An end token, a stop text, or the worker was told to stop.
    Stop,
    /// The wanted number of tokens.
    Length,
    /// Content was filtered.
    ContentFilter,
}

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
        }
    }
}

/// Writes one answer.
#[derive(Debug)]
pub(crate) struct AnswerWriter {
    endpoint: Endpoint,
    /// From `{` to the choices' bracket.
    head: Box<str>,
    /// From behind the choices' bracket to before the object's name.
    tail: Box<str>,
    /// The role was written.
    begun: bool,
}

impl AnswerWriter {
    /// For an answer called `id` that began `created_s` seconds after 1970.
    pub(crate) fn new(endpoint: Endpoint, id: &str, created_s: u64, model: &str) -> Self {
        let prefix = match endpoint {
            Endpoint::Chat => "chatcmpl",
            Endpoint::Completions => "cmpl",
        };
        let mut tail = BytesMut::with_capacity(64 + model.len());
        tail.extend_from_slice(format!("],\"created\":{created_s},\"model\":").as_bytes());
        escape(model, &mut tail);
        tail.extend_from_slice(match endpoint {
            Endpoint::Chat => b",\"object\":\"",
            Endpoint::Completions => b",\"system_fingerprint\":null,\"object\":\"",
        });
        Self {
            endpoint,
            head: format!("{{\"id\":\"{prefix}-{id}\",\"choices\":[").into(),
            tail: String::from_utf8_lossy(&tail).into(),
            begun: false,
        }
    }

    /// An event with new text, or the end, or both.
    pub(crate) fn chunk(&mut self, text: &str, end: Option<Reason>, out: &mut BytesMut) {
        self.open(out);
        match self.endpoint {
            Endpoint::Chat => self.chat_choice(text, end, out),
            Endpoint::Completions => completion_choice(text, end, out),
        }
        self.close(out);
        out.extend_from_slice(match self.endpoint {
            Endpoint::Chat => b"}\n\n",
            Endpoint::Completions => b",\"usage\":null}\n\n",
        });
        self.begun = true;
    }

    /// The event with token counts.
    pub(crate) fn usage_chunk(&self, usage: &Usage, out: &mut BytesMut) {
        self.open(out);
        self.close(out);
        self.usage(usage, out);
        out.extend_from_slice(b"}\n\n");
    }

    /// The whole answer as one object.
    pub(crate) fn whole(&self, text: &str, end: Reason, usage: &Usage) -> BytesMut {
        let mut out = BytesMut::with_capacity(512 + text.len());
        out.extend_from_slice(self.head.as_bytes());
        match self.endpoint {
            Endpoint::Chat => {
                out.extend_from_slice(b"{\"index\":0,\"message\":{\"content\":");
                escape(text, &mut out);
                out.extend_from_slice(b",\"refusal\":null,\"role\":\"assistant\"},\"finish_reason\":\"");
                out.extend_from_slice(end.name().as_bytes());
                out.extend_from_slice(b"\",\"logprobs\":null}");
            }
            Endpoint::Completions => completion_choice(text, Some(end), &mut out),
        }
        out.extend_from_slice(self.tail.as_bytes());
        out.extend_from_slice(match self.endpoint {
            Endpoint::Chat => b"chat.completion\"",
            Endpoint::Completions => b"text_completion\"",
        });
        self.usage(usage, &mut out);
        out.put_u8(b'}');
        out
    }

    fn open(&self, out: &mut BytesMut) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(self.head.as_bytes());
    }

    fn close(&self, out: &mut BytesMut) {
        out.extend_from_slice(self.tail.as_bytes());
        out.extend_from_slice(match self.endpoint {
            Endpoint::Chat => b"chat.completion.chunk\"",
            Endpoint::Completions => b"text_completion\"",
        });
    }

    fn chat_choice(&self, text: &str, end: Option<Reason>, out: &mut BytesMut) {
        out.extend_from_slice(b"{\"index\":0,\"delta\":{");
        if !(text.is_empty() && end.is_some() && self.begun) {
            out.extend_from_slice(b"\"content\":");
            escape(text, out);
        }
        if !self.begun {
            out.extend_from_slice(b",\"role\":\"assistant\"");
        }
        match end {
            None => out.extend_from_slice(b"},\"finish_reason\":null,\"logprobs\":null}"),
            Some(reason) => {
                out.extend_from_slice(b"},\"finish_reason\":\"");
                out.extend_from_slice(reason.name().as_bytes());
                out.extend_from_slice(b"\",\"logprobs\":null}");
            }
        }
    }

    fn usage(&self, usage: &Usage, out: &mut BytesMut) {
        let Usage { prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens } = usage;
        let total = u64::from(*prompt_tokens) + u64::from(*completion_tokens);
        let counts = format!(
            ",\"usage\":{{\"prompt_tokens\":{prompt_tokens},\"completion_tokens\":{completion_tokens},\"total_tokens\":{total}"
        );
        out.extend_from_slice(counts.as_bytes());
        if let Some(cached) = cached_tokens {
            let audio = if self.endpoint == Endpoint::Completions { "\"audio_tokens\":null," } else { "" };
            let details = format!(",\"prompt_tokens_details\":{{{audio}\"cached_tokens\":{cached}}}");
            out.extend_from_slice(details.as_bytes());
        }
        if let Some(reasoning) = reasoning_tokens {
            let details = format!(",\"completion_tokens_details\":{{\"reasoning_tokens\":{reasoning}}}");
            out.extend_from_slice(details.as_bytes());
        }
        out.put_u8(b'}');
    }
}

fn completion_choice(text: &str, end: Option<Reason>, out: &mut BytesMut) {
    out.extend_from_slice(b"{\"text\":");
    escape(text, out);
    out.extend_from_slice(b",\"index\":0");
    if let Some(reason) = end {
        out.extend_from_slice(b",\"finish_reason\":\"");
        out.extend_from_slice(reason.name().as_bytes());
        out.put_u8(b'"');
    }
    out.put_u8(b'}');
}

/// An event of the kind `name` whose value is a comment, as annotations are written.
pub(crate) fn annotation(name: &str, value: &str, out: &mut BytesMut) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\n: ");
    escape(value, out);
    out.extend_from_slice(b"\n\n");
}

/// The event that ends a stream which has begun and cannot go on.
pub(crate) fn error_event(error: &ApiError, out: &mut BytesMut) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(&error.body());
    out.extend_from_slice(b"\n\n");
}

/// `text` as a JSON string.
fn escape(text: &str, out: &mut BytesMut) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.reserve(text.len() + 2);
    out.put_u8(b'"');
    let bytes = text.as_bytes();
    let mut plain = 0;
    for (index, byte) in bytes.iter().copied().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[plain..index]);
        plain = index + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ => {
                let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            }
        }
    }
    out.extend_from_slice(&bytes[plain..]);
    out.put_u8(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the real frontend of release 1.6.1 answered, with our id and time in place of its own.
    const CHAT_STREAM: &str = include_str!("../../tests/golden/chat_stream.txt");
    const COMPLETION_STREAM: &str = include_str!("../../tests/golden/completion_stream.txt");
    const CHAT_WHOLE: &str = include_str!("../../tests/golden/chat_whole.txt");
    const COMPLETION_WHOLE: &str = include_str!("../../tests/golden/completion_whole.txt");

    fn writer(endpoint: Endpoint) -> AnswerWriter {
        AnswerWriter::new(endpoint, "00000000-0000-4000-8000-000000000000", 1_796_088_552, "tiny")
    }

    fn stream(endpoint: Endpoint, texts: [&str; 3], prompt_tokens: u32) -> String {
        let mut writer = writer(endpoint);
        let mut out = BytesMut::new();
        for text in texts {
            writer.chunk(text, None, &mut out);
        }
        writer.chunk("", Some(Reason::Length), &mut out);
        let usage = Usage { prompt_tokens, completion_tokens: 3, cached_tokens: Some(0), reasoning_tokens: None };
        writer.usage_chunk(&usage, &mut out);
        out.extend_from_slice(DONE);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn streams_are_byte_for_byte_those_of_the_published_frontend() {
        assert_eq!(stream(Endpoint::Chat, ["vg", "uP", "rH"], 20), CHAT_STREAM);
        assert_eq!(stream(Endpoint::Completions, ["wJ", "to", "wd"], 5), COMPLETION_STREAM);
    }

    #[test]
    fn whole_answers_are_byte_for_byte_those_of_the_published_frontend() {
        let usage = Usage { prompt_tokens: 20, completion_tokens: 3, cached_tokens: Some(0), reasoning_tokens: None };
        let chat = writer(Endpoint::Chat).whole("tftNrA", Reason::Length, &usage);
        assert_eq!(chat, CHAT_WHOLE.trim_end());
        let usage = Usage { prompt_tokens: 5, ..usage };
        let plain = writer(Endpoint::Completions).whole("xxtCsE", Reason::Length, &usage);
        assert_eq!(plain, COMPLETION_WHOLE.trim_end());
    }

    #[test]
    fn text_is_escaped_as_the_json_library_does_it() {
        let all: String = (0..0x300).filter_map(char::from_u32).chain("\u{2028}🦀".chars()).collect();
        let mut out = BytesMut::new();
        escape(&all, &mut out);
        assert_eq!(out, serde_json::to_string(&all).unwrap());
    }

    #[test]
    fn a_chunk_with_text_and_end_has_both() {
        let mut out = BytesMut::new();
        let mut writer = writer(Endpoint::Chat);
        writer.chunk("A", Some(Reason::Stop), &mut out);
        let text = String::from_utf8(out.to_vec()).unwrap();
        assert!(text.contains(r#""delta":{"content":"A","role":"assistant"},"finish_reason":"stop""#), "{text}");
    }

    #[test]
    fn an_annotation_is_a_comment_of_its_event() {
        let mut out = BytesMut::new();
        annotation("formatted_prompt", "user: hi\n", &mut out);
        assert_eq!(out, "event: formatted_prompt\n: \"user: hi\\n\"\n\n");
    }
}
