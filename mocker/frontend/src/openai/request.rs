//! A body of one of the generating routes.

use std::borrow::Cow;

use super::chat::ChatRequest;
use super::completion::CompletionRequest;
use super::error::ApiError;
use super::fields::Fields;
use super::options::Options;
use crate::http::service::Endpoint;

/// Longest name of a model in bytes.
const MAX_MODEL_BYTES: usize = 1024;

/// A request that is well-formed; whether the model can serve it is not yet known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request<'a> {
    /// Chat.
    Chat(ChatRequest<'a>),
    /// Plain completion.
    Completion(CompletionRequest<'a>),
}

/// The model's name and the fields of a body of which nothing else was looked at.
pub(crate) type Opened<'a> = (Cow<'a, str>, Fields<'a>);

/// Reads a body as far as the model's name.
pub(crate) fn open(body: &[u8]) -> Result<Opened<'_>, ApiError> {
    let mut fields = Fields::of_body(body)?;
    let allowed = "the name of a model";
    let model = fields.text("model")?.ok_or_else(|| ApiError::missing("model", allowed))?;
    match model.len() {
        0 => Err(ApiError::value("model", "", allowed)),
        1..=MAX_MODEL_BYTES => Ok((model, fields)),
        long => Err(ApiError::field("model", format!("{long} bytes (allowed: at most {MAX_MODEL_BYTES})"))),
    }
}

impl<'a> Request<'a> {
    /// Reads the rest of a body.
    pub(crate) fn parse(endpoint: Endpoint, (model, fields): Opened<'a>) -> Result<Self, ApiError> {
        match endpoint {
            Endpoint::Chat => ChatRequest::parse(model, fields).map(Self::Chat),
            Endpoint::Completions => CompletionRequest::parse(model, fields).map(Self::Completion),
        }
    }

    /// What both have in common.
    pub(crate) fn options(&self) -> &Options {
        match self {
            Self::Chat(request) => &request.options,
            Self::Completion(request) => &request.options,
        }
    }
}
