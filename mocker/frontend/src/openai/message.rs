//! Messages of a conversation.

use std::borrow::Cow;

use minijinja::Value;
use serde_json::value::RawValue;

use super::error::ApiError;
use super::fields::{Fields, list, text};

/// Most parts of one message.
const MAX_PARTS: usize = 4096;
const ROLES: [&str; 6] = ["developer", "system", "user", "assistant", "tool", "function"];
const CONTENT: &str = "a string or a list of at least one text part";

/// One message, as chat templates see it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message<'a> {
    /// Who speaks.
    pub(crate) role: &'static str,
    /// What is said; the texts of parts are lines of it.
    pub(crate) content: Cow<'a, str>,
    /// Name of the speaker.
    pub(crate) name: Option<Cow<'a, str>>,
    /// What the assistant thought.
    pub(crate) reasoning_content: Option<Cow<'a, str>>,
    /// Tools that the assistant called; their arguments are JSON text.
    pub(crate) tool_calls: Option<Value>,
    /// The call that a tool answers.
    pub(crate) tool_call_id: Option<Cow<'a, str>>,
}

impl Message<'_> {
    /// The message as a template sees it.
    pub(crate) fn to_value(&self) -> Value {
        let text = |name, text: &Option<Cow<'_, str>>| Some((name, Value::from(text.as_deref()?)));
        let always = [("role", Value::from(self.role)), ("content", Value::from(self.content.as_ref()))];
        let sometimes = [
            text("name", &self.name),
            text("reasoning_content", &self.reasoning_content),
            self.tool_calls.clone().map(|calls| ("tool_calls", calls)),
            text("tool_call_id", &self.tool_call_id),
        ];
        Value::from_pairs(always.into_iter().chain(sometimes.into_iter().flatten()))
    }
}

/// Reads a message. Errors name fields as seen from inside.
pub(crate) fn parse(raw: &RawValue) -> Result<Message<'_>, ApiError> {
    let mut fields = Fields::of("", raw)?;
    let role = fields.word("role", &ROLES)?.ok_or_else(|| ApiError::missing("role", &ROLES.join(", ")))?;
    let assistant = role == "assistant";
    let content = match fields.take("content") {
        Some(raw) => content(raw)?,
        None if assistant => Cow::Borrowed(""),
        None => return Err(ApiError::missing("content", CONTENT)),
    };
    let message = Message {
        role,
        content,
        name: fields.text("name")?,
        reasoning_content: if assistant { fields.text("reasoning_content")? } else { None },
        tool_calls: if assistant { tool_calls(&mut fields)? } else { None },
        tool_call_id: if role == "tool" { fields.text("tool_call_id")? } else { None },
    };
    if assistant {
        // Clients send answers back as they got them.
        fields.text("refusal")?;
    }
    fields.end_without_values()?;
    Ok(message)
}

fn content(raw: &RawValue) -> Result<Cow<'_, str>, ApiError> {
    match raw.get().as_bytes().first() {
        Some(b'"') => text("content", raw),
        Some(b'[') => parts(raw),
        _ => Err(ApiError::value("content", raw.get(), CONTENT)),
    }
}

fn parts(raw: &RawValue) -> Result<Cow<'_, str>, ApiError> {
    let parts = list("content", raw)?;
    if !(1..=MAX_PARTS).contains(&parts.len()) {
        return Err(ApiError::field("content", format!("{} parts (allowed: 1 to {MAX_PARTS})", parts.len())));
    }
    let mut lines = String::new();
    for (i, raw) in parts.into_iter().enumerate() {
        let line = part(raw).map_err(|error| error.within(&format!("content[{i}]")))?;
        if i > 0 {
            lines.push('\n');
        }
        lines.push_str(&line);
    }
    Ok(Cow::Owned(lines))
}

fn part(raw: &RawValue) -> Result<Cow<'_, str>, ApiError> {
    let mut fields = Fields::of("", raw)?;
    let kind = fields.text("type")?.ok_or_else(|| ApiError::missing("type", "text"))?;
    match kind.as_ref() {
        "text" => {
            let text = fields.text("text")?.ok_or_else(|| ApiError::missing("text", "a string"))?;
            fields.end_without_values()?;
            Ok(text)
        }
        "image_url" | "input_audio" | "audio_url" | "video_url" | "file" => {
            Err(ApiError::value("type", &kind, "text: a simulated engine sees no pictures, sound or files"))
        }
        other => Err(ApiError::value("type", other, "text")),
    }
}

/// Whether `call.function` has a text of that name.
pub(crate) fn text_at(call: &Value, name: &str) -> bool {
    call.get_attr("function").and_then(|function| function.get_attr(name)).is_ok_and(|value| value.as_str().is_some())
}

fn tool_calls(fields: &mut Fields<'_>) -> Result<Option<Value>, ApiError> {
    let Some(raw) = fields.take("tool_calls") else { return Ok(None) };
    let calls: Value = serde_json::from_str(raw.get()).map_err(|e| ApiError::field("tool_calls", e.to_string()))?;
    let good = |call: Value| text_at(&call, "name") && text_at(&call, "arguments");
    let all_good = raw.get().starts_with('[') && calls.try_iter().is_ok_and(|mut list| list.all(good));
    if all_good && calls.len() > Some(0) {
        return Ok(Some(calls));
    }
    Err(ApiError::value("tool_calls", raw.get(), "a list of calls with `function.name` and `.arguments`"))
}
