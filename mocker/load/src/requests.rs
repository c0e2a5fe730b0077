//! Requests as bytes.

use std::io::Write;

use dynosim_workload::Turn;

use crate::config::{Answering, Endpoint, LoadConfig, PromptFormat};
use crate::prompt::Prompt;

/// Room for a content length; blanks before the number are allowed in a header field.
const LENGTH_WIDTH: usize = 10;

/// Writes requests; what they have in common is made once.
#[derive(Debug)]
pub(crate) struct Requests {
    /// Up to the content length.
    head: Vec<u8>,
    /// From the body's start to the prompt.
    before_prompt: Vec<u8>,
    /// From the prompt to the output length.
    after_prompt: Vec<u8>,
    /// Behind the output length.
    end: Vec<u8>,
    format: PromptFormat,
    vocabulary: u32,
    block_size: u32,
    salt: u64,
}

impl Requests {
    /// Prepares for a run. Another `salt` gives other prompts from the same workload.
    pub(crate) fn new(config: &LoadConfig, salt: u64) -> Self {
        let target = &config.target;
        let route = match config.endpoint {
            Endpoint::Completions => "completions",
            Endpoint::Chat => "chat/completions",
        };
        let stream = config.answering == Answering::Stream;
        let accept = if stream { "text/event-stream" } else { "application/json" };
        let head = format!(
            "POST {}/v1/{route} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\naccept: {accept}\r\n\
             {}content-length:",
            target.prefix, target.host, target.headers
        );
        let (open, close) = match (config.endpoint, config.format) {
            (Endpoint::Chat, _) => (r#""messages":[{"role":"user","content":""#, r#""}]"#),
            (Endpoint::Completions, PromptFormat::Text) => (r#""prompt":""#, r#"""#),
            (Endpoint::Completions, PromptFormat::Tokens) => (r#""prompt":["#, "]"),
        };
        let streaming =
            if stream { r#""stream":true,"stream_options":{"include_usage":true}"# } else { r#""stream":false"# };
        let model = serde_json::Value::from(config.model.as_str());
        Self {
            head: head.into_bytes(),
            before_prompt: format!(r#"{{"model":{model},{open}"#).into_bytes(),
            after_prompt: format!(r#"{close},{streaming},"ignore_eos":true"#).into_bytes(),
            end: b"}".to_vec(),
            format: config.format,
            vocabulary: config.vocabulary,
            block_size: config.block_size,
            salt,
        }
    }

    /// Writes one request into `out`, which is cleared.
    pub(crate) fn write(&self, turn: &Turn, hashes: &[u64], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.head);
        let length_at = out.len();
        out.resize(length_at + LENGTH_WIDTH, b' ');
        out.extend_from_slice(b"\r\n\r\n");
        let body_at = out.len();
        out.extend_from_slice(&self.before_prompt);
        let Turn { row, input_tokens: length, output_tokens, priority, .. } = *turn;
        let prompt = Prompt { hashes, block_size: self.block_size, length, row, salt: self.salt };
        match self.format {
            PromptFormat::Text => prompt.write_text(out),
            PromptFormat::Tokens => prompt.write_ids(self.vocabulary, out),
        }
        out.extend_from_slice(&self.after_prompt);
        // Writing to memory cannot fail.
        let _ = write!(out, r#","max_tokens":{output_tokens},"min_tokens":{output_tokens}"#);
        if priority != 0 {
            // Traces say larger is sooner, servers lower is sooner.
            let _ = write!(out, r#","priority":{}"#, priority.saturating_neg());
        }
        out.extend_from_slice(&self.end);
        let length = out.len() - body_at;
        let _ = write!(&mut out[length_at..length_at + LENGTH_WIDTH], "{length:>LENGTH_WIDTH$}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dynosim_replay::{Admission, Sla};
    use serde_json::{Value, json};

    use super::*;
    use crate::target::Target;

    fn config(endpoint: Endpoint, format: PromptFormat, answering: Answering) -> LoadConfig {
        LoadConfig {
            target: Target::resolve("http://127.0.0.1:9/base/v1").unwrap().with_header("x-key: 1").unwrap(),
            model: "m\"1".to_owned(),
            endpoint,
            format,
            vocabulary: 256,
            answering,
            block_size: 1,
            admission: Admission::Schedule,
            end: None,
            timeout: Duration::from_secs(1),
            connections: 1,
            warmup_requests: 0,
            sla: Sla::default(),
            records: false,
        }
    }

    fn request(config: &LoadConfig, turn: &Turn) -> (String, Value) {
        let mut out = Vec::new();
        Requests::new(config, 0).write(turn, &[1, 2, 3], &mut out);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let length = head.split("content-length:").nth(1).unwrap().trim();
        assert_eq!(length.parse(), Ok(body.len()));
        (head.to_owned(), serde_json::from_str(body).unwrap())
    }

    #[test]
    fn a_completion_names_its_tokens_and_exactly_one_length() {
        let turn = Turn { input_tokens: 3, output_tokens: 7, priority: 2, ..Turn::default() };
        let (head, body) = request(&config(Endpoint::Completions, PromptFormat::Tokens, Answering::Stream), &turn);
        assert!(head.starts_with("POST /base/v1/completions HTTP/1.1\r\nhost: 127.0.0.1:9\r\n"), "{head}");
        assert!(head.contains("\r\nx-key: 1\r\n"), "{head}");
        let ids = body["prompt"].as_array().unwrap();
        assert!(ids.len() == 3 && ids.iter().all(|id| id.as_u64().unwrap() < 256), "{body}");
        for (key, value) in [
            ("model", json!("m\"1")),
            ("max_tokens", json!(7)),
            ("min_tokens", json!(7)),
            ("ignore_eos", json!(true)),
            ("priority", json!(-2)),
            ("stream", json!(true)),
            ("stream_options", json!({"include_usage": true})),
        ] {
            assert_eq!(body[key], value, "{key}");
        }
    }

    #[test]
    fn a_chat_has_one_message_of_the_prompts_length() {
        let turn = Turn { input_tokens: 30, output_tokens: 1, ..Turn::default() };
        let (head, body) = request(&config(Endpoint::Chat, PromptFormat::Text, Answering::Whole), &turn);
        assert!(head.starts_with("POST /base/v1/chat/completions "), "{head}");
        assert_eq!(body["messages"][0]["content"].as_str().unwrap().len(), 30);
        assert_eq!((&body["stream"], body.get("stream_options"), body.get("priority")), (&json!(false), None, None));
    }
}
