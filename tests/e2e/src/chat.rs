//! Chat completions, as a client of a frontend sees them.

use serde_json::{Value, json};

use crate::Endpoint;

/// What came of a chat completion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chat {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Of these, tokens whose KV was there.
    pub cached_tokens: u64,
    /// Tokens of the answer.
    pub completion_tokens: u64,
    /// Chunks with text.
    pub chunks: u64,
}

/// Streams an answer of so many tokens.
///
/// # Errors
/// What the frontend says, or how the stream broke off.
pub async fn chat(frontend: &Endpoint, model: &str, prompt: &str, tokens: u32) -> Result<Chat, String> {
    let request = json!({
        "model": model, "stream": true, "max_tokens": tokens, "min_tokens": tokens, "ignore_eos": true,
        "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": prompt}],
    });
    let mut events = frontend.stream("/v1/chat/completions", &request).await?;
    let mut chat = Chat::default();
    while let Some(event) = events.next().await? {
        if event == "[DONE]" {
            return if chat.completion_tokens == u64::from(tokens) { Ok(chat) } else { Err(format!("{chat:?}")) };
        }
        let chunk: Value = serde_json::from_str(&event).map_err(|error| format!("{error}: {event}"))?;
        if chunk["error"].is_object() {
            return Err(event);
        }
        if chunk["choices"][0]["delta"]["content"].as_str().is_some_and(|text| !text.is_empty()) {
            chat.chunks += 1;
        }
        let usage = &chunk["usage"];
        if usage.is_object() {
            let number = |value: &Value| value.as_u64().unwrap_or_default();
            chat.prompt_tokens = number(&usage["prompt_tokens"]);
            chat.completion_tokens = number(&usage["completion_tokens"]);
            chat.cached_tokens = number(&usage["prompt_tokens_details"]["cached_tokens"]);
        }
    }
    Err(format!("the stream has no end: {chat:?}"))
}
