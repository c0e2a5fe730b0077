//! Requests to `/v1/completions`.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::error::ApiError;
use super::fields::{Fields, list, text, tokens};
use super::options::Options;
use crate::http::service::Endpoint;

/// What the model goes on from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Prompt<'a> {
    /// Text, not empty.
    Text(Cow<'a, str>),
    /// Tokens, not empty.
    Tokens(Vec<u32>),
}

/// A request that is well-formed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompletionRequest<'a> {
    /// The model's name.
    pub(crate) model: Cow<'a, str>,
    /// What it goes on from.
    pub(crate) prompt: Prompt<'a>,
    /// Everything else.
    pub(crate) options: Options,
}

const PROMPT: &str = "a string, a list of one string, or a list of token ids";

impl<'a> CompletionRequest<'a> {
    /// Reads what is left of a body after its model was taken.
    pub(crate) fn parse(model: Cow<'a, str>, mut fields: Fields<'a>) -> Result<Self, ApiError> {
        let options = Options::take(&mut fields, Endpoint::Completions)?;
        let prompt = match (fields.take("prompt"), &options.token_data) {
            (Some(raw), _) => prompt(raw)?,
            // The tokens take the text's place.
            (None, Some(tokens)) => Prompt::Tokens(tokens.clone()),
            (None, None) => return Err(ApiError::missing("prompt", PROMPT)),
        };
        if fields.boolean("echo")? == Some(true) {
            return Err(ApiError::value("echo", "true", "false: a simulated engine answers with new text only"));
        }
        fields.refuse("suffix", "a simulated engine does not fill in")?;
        if let Some(raw) = fields.take("best_of").filter(|raw| raw.get() != "1") {
            return Err(ApiError::value("best_of", raw.get(), "1"));
        }
        fields.refuse("logprobs", "a simulated engine has no log probabilities")?;
        fields.end()?;
        Ok(Self { model, prompt, options })
    }
}

fn prompt(raw: &RawValue) -> Result<Prompt<'_>, ApiError> {
    match raw.get().as_bytes().first() {
        Some(b'"') => plain("prompt", raw),
        Some(b'[') => one_of_list(raw),
        _ => Err(ApiError::value("prompt", raw.get(), PROMPT)),
    }
}

fn plain<'a>(name: &str, raw: &'a RawValue) -> Result<Prompt<'a>, ApiError> {
    let text = text(name, raw)?;
    if text.is_empty() { Err(ApiError::value(name, "", "a string that is not empty")) } else { Ok(Prompt::Text(text)) }
}

fn one_of_list(raw: &RawValue) -> Result<Prompt<'_>, ApiError> {
    let inner = raw.get()[1..].trim_start();
    if !inner.starts_with(['"', '[']) {
        let tokens = tokens("prompt", raw)?;
        if tokens.is_empty() {
            return Err(ApiError::value("prompt", "[]", PROMPT));
        }
        return Ok(Prompt::Tokens(tokens));
    }
    match list("prompt", raw)?.as_slice() {
        [one] if one.get().starts_with('"') => plain("prompt[0]", one),
        [one] => match tokens("prompt[0]", one)? {
            tokens if tokens.is_empty() => Err(ApiError::value("prompt[0]", "[]", "at least one token id")),
            tokens => Ok(Prompt::Tokens(tokens)),
        },
        many => Err(ApiError::field("prompt", format!("{} prompts (allowed: one per request)", many.len()))),
    }
}
