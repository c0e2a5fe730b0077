//! Requests to `/v1/chat/completions`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use minijinja::Value;
use serde_json::value::RawValue;

use super::error::ApiError;
use super::fields::Fields;
use super::message::{self, Message};
use super::options::Options;
use crate::http::service::Endpoint;

/// Most messages of a request.
pub(crate) const MAX_MESSAGES: usize = 16_384;
/// Most tools of a request.
const MAX_TOOLS: usize = 1024;

/// A request that is well-formed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChatRequest<'a> {
    /// The model's name.
    pub(crate) model: Cow<'a, str>,
    /// The conversation, not empty.
    pub(crate) messages: Vec<Message<'a>>,
    /// Tools that the template shows; none if the model may call none.
    pub(crate) tools: Option<Value>,
    /// The prompt ends where the assistant begins to speak.
    pub(crate) add_generation_prompt: bool,
    /// Further names that the template knows.
    pub(crate) template_names: BTreeMap<String, Value>,
    /// Everything else.
    pub(crate) options: Options,
}

impl<'a> ChatRequest<'a> {
    /// Reads what is left of a body after its model was taken.
    pub(crate) fn parse(model: Cow<'a, str>, mut fields: Fields<'a>) -> Result<Self, ApiError> {
        let options = Options::take(&mut fields, Endpoint::Chat)?;
        let messages = messages(&mut fields)?;
        unsupported(&mut fields)?;
        let request = Self {
            model,
            messages,
            tools: tools(&mut fields)?,
            add_generation_prompt: fields.boolean("add_generation_prompt")?.unwrap_or(true),
            template_names: template_names(&mut fields)?,
            options,
        };
        fields.end()?;
        Ok(request)
    }
}

fn messages<'a>(fields: &mut Fields<'a>) -> Result<Vec<Message<'a>>, ApiError> {
    let allowed = "a list of at least one message";
    let raw = fields.take("messages").ok_or_else(|| ApiError::missing("messages", allowed))?;
    let list = super::fields::list("messages", raw)?;
    match list.len() {
        0 => Err(ApiError::value("messages", "[]", allowed)),
        1..=MAX_MESSAGES => list
            .iter()
            .enumerate()
            .map(|(i, raw)| message::parse(raw).map_err(|error| error.within(&format!("messages[{i}]"))))
            .collect(),
        many => Err(ApiError::field("messages", format!("{many} messages (allowed: 1 to {MAX_MESSAGES})"))),
    }
}

/// Tools change the prompt. That none is called is an answer that a model may give, so long as it may choose.
fn tools(fields: &mut Fields<'_>) -> Result<Option<Value>, ApiError> {
    let tools = fields.list("tools")?;
    let choice = fields.take("tool_choice").map(RawValue::get);
    // Of calls that are never made, it does not matter whether they could be made at once.
    fields.boolean("parallel_tool_calls")?;
    match choice {
        None | Some("\"auto\"" | "\"none\"") => {}
        Some(other) => {
            return Err(ApiError::value("tool_choice", other, "auto, none: a simulated engine calls no tool"));
        }
    }
    let Some(tools) = tools else { return Ok(None) };
    if !(1..=MAX_TOOLS).contains(&tools.len()) {
        return Err(ApiError::field("tools", format!("{} entries (allowed: 1 to {MAX_TOOLS})", tools.len())));
    }
    let mut list = Vec::with_capacity(tools.len());
    for (i, raw) in tools.into_iter().enumerate() {
        let name = format!("tools[{i}]");
        let tool: Value = serde_json::from_str(raw.get()).map_err(|e| ApiError::field(name.as_str(), e.to_string()))?;
        let function = tool.get_attr("type").is_ok_and(|kind| kind.as_str() == Some("function"));
        if !function || !message::text_at(&tool, "name") {
            return Err(ApiError::value(name, raw.get(), "{\"type\": \"function\", \"function\": {\"name\": …}}"));
        }
        list.push(tool);
    }
    Ok((choice != Some("\"none\"")).then(|| Value::from(list)))
}

fn template_names(fields: &mut Fields<'_>) -> Result<BTreeMap<String, Value>, ApiError> {
    let mut names = BTreeMap::new();
    if let Some(raw) = fields.take("chat_template_kwargs") {
        names = serde_json::from_str(raw.get())
            .map_err(|_| ApiError::value("chat_template_kwargs", raw.get(), "an object"))?;
    }
    let efforts = ["none", "minimal", "low", "medium", "high", "xhigh"];
    if let Some(effort) = fields.word("reasoning_effort", &efforts)? {
        names.insert("reasoning_effort".to_owned(), Value::from(effort));
    }
    Ok(names)
}

/// What a simulated engine cannot do, and a client would miss.
fn unsupported(fields: &mut Fields<'_>) -> Result<(), ApiError> {
    if fields.boolean("logprobs")? == Some(true) {
        return Err(ApiError::value("logprobs", "true", "false: a simulated engine has no log probabilities"));
    }
    fields.refuse("top_logprobs", "a simulated engine has no log probabilities")?;
    if fields.boolean("continue_final_message")? == Some(true) {
        return Err(ApiError::value("continue_final_message", "true", "false"));
    }
    fields.refuse("functions", "deprecated, use `tools`")?;
    fields.refuse("function_call", "deprecated, use `tool_choice`")?;
    fields.refuse("audio", "answers are text")?;
    fields.refuse("prediction", "a simulated engine has no use for it")?;
    fields.refuse("web_search_options", "a simulated engine does not search")?;
    if let Some(raw) = fields.take("modalities")
        && serde_json::from_str::<Vec<String>>(raw.get()).ok() != Some(vec!["text".to_owned()])
    {
        return Err(ApiError::value("modalities", raw.get(), "[\"text\"]"));
    }
    if let Some(mut format) = fields.object("response_format")? {
        let allowed = ["text"];
        let checked = format.word("type", &allowed).and_then(|_| format.end());
        checked.map_err(|error| error.within("response_format"))?;
    }
    Ok(())
}
