//! From a well-formed request to what workers are asked.

use ::http::HeaderMap;
use dynosim_wire::protocol::{OutputOptions, PreprocessedRequest, RoutingHints, StopConditions};
use dynosim_wire::time;

use super::service::{Endpoint, Prepared};
use crate::openai::completion::Prompt;
use crate::openai::error::ApiError;
use crate::openai::nvext::apply_headers;
use crate::openai::options::{Options, SpecialTokens};
use crate::openai::request::Request;
use crate::text::TextModel;

/// A request that the model can serve.
#[derive(Debug)]
pub(crate) struct Work {
    /// For the workers.
    pub(crate) request: PreprocessedRequest,
    /// For metrics.
    pub(crate) prepared: Prepared,
    /// The prompt's text, if there was one.
    pub(crate) prompt: Option<String>,
}

/// Renders, tokenizes and checks the limits of the model.
pub(crate) fn prepare(request: &Request<'_>, model: &TextModel, headers: &HeaderMap) -> Result<Work, ApiError> {
    let options = request.options();
    let mut prepared = Prepared::default();
    let (prompt, tokens) = match &options.token_data {
        Some(tokens) => (None, tokens.clone()),
        None => tokens_of(request, model, &mut prepared)?,
    };
    prepared.prompt_tokens = tokens.len() as u32;
    check(&tokens, options, model)?;
    let mut routing = options.routing.clone();
    apply_headers(&mut routing, headers)?;
    Ok(Work { request: preprocessed(tokens, options, routing, model), prepared, prompt })
}

fn tokens_of(
    request: &Request<'_>,
    model: &TextModel,
    prepared: &mut Prepared,
) -> Result<(Option<String>, Vec<u32>), ApiError> {
    let begin = time::now();
    let text = match request {
        Request::Chat(chat) => {
            require(model, Endpoint::Chat)?;
            let text = model.render(chat).map_err(|reason| ApiError::field("messages", reason))?;
            prepared.template = begin.elapsed();
            text
        }
        Request::Completion(completion) => {
            require(model, Endpoint::Completions)?;
            match &completion.prompt {
                Prompt::Text(text) => text.to_string(),
                Prompt::Tokens(tokens) => return Ok((None, tokens.clone())),
            }
        }
    };
    let begin = time::now();
    let tokens = model.encode(&text).map_err(ApiError::invalid)?;
    prepared.tokenize = begin.elapsed();
    Ok((Some(text), tokens))
}

fn require(model: &TextModel, endpoint: Endpoint) -> Result<(), ApiError> {
    if model.serves(endpoint) {
        return Ok(());
    }
    let detail = format!("`{}` does not serve {}", model.name(), endpoint.label());
    Err(ApiError { code: Some("model_not_found"), ..ApiError::field("model", detail) })
}

fn check(tokens: &[u32], options: &Options, model: &TextModel) -> Result<(), ApiError> {
    if tokens.is_empty() {
        return Err(ApiError::invalid("the prompt has no token"));
    }
    if let Some(token) = tokens.iter().find(|token| **token >= model.vocabulary()) {
        let allowed = format!("token ids below {}, the size of the vocabulary", model.vocabulary());
        return Err(ApiError::value("prompt", &token.to_string(), &allowed));
    }
    let limit = u64::from(model.context_length());
    let (prompt, answer) = (tokens.len() as u64, u64::from(options.stops.max_tokens.unwrap_or(1)));
    if limit > 0 && prompt + answer > limit {
        let detail = format!("{prompt} prompt tokens and {answer} output tokens (allowed: at most {limit} together)");
        return Err(ApiError { code: Some("context_length_exceeded"), ..ApiError::invalid(detail) });
    }
    Ok(())
}

fn preprocessed(tokens: Vec<u32>, options: &Options, routing: RoutingHints, model: &TextModel) -> PreprocessedRequest {
    let stops = &options.stops;
    PreprocessedRequest {
        model: model.name().to_owned(),
        token_ids: tokens,
        stop_conditions: StopConditions {
            max_tokens: stops.max_tokens,
            stop: (!stops.texts.is_empty()).then(|| stops.texts.clone()),
            stop_token_ids_hidden: (!stops.token_ids.is_empty()).then(|| stops.token_ids.clone()),
            min_tokens: stops.min_tokens,
            ignore_eos: stops.ignore_eos.then_some(true),
            max_thinking_tokens: stops.max_thinking_tokens,
        },
        sampling_options: options.sampling.clone(),
        output_options: OutputOptions {
            skip_special_tokens: (options.special_tokens == SpecialTokens::Shown).then_some(false),
            ..OutputOptions::default()
        },
        eos_token_ids: model.eos_token_ids().to_vec(),
        annotations: options.annotations.names(),
        routing: (routing != RoutingHints::default()).then_some(routing),
        request_timestamp_ms: Some(time::unix_ms() as f64),
        ..PreprocessedRequest::default()
    }
}
