//! What chat and plain completions have in common.

use dynosim_wire::protocol::{RoutingHints, SamplingOptions};

use super::error::ApiError;
use super::fields::{Fields, text};
use super::nvext::{Annotations, NvExt};
use super::sampling;
use crate::http::service::{Delivery, Endpoint};

/// Most output tokens that a request may ask for (`dynamo-llm` 1.6.1).
pub(crate) const MAX_OUTPUT_TOKENS: u32 = 1_048_576;
/// Most stop texts of a request (`dynamo-llm` 1.6.1).
pub(crate) const MAX_STOPS: usize = 32;
/// Longest stop text in bytes: so much text may be held back per stream.
pub(crate) const MAX_STOP_BYTES: usize = 1024;

/// Whether the text contains the stop text that ended it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StopText {
    /// It ends before.
    #[default]
    Cut,
    /// It ends with it.
    Kept,
}

/// Whether special tokens are in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SpecialTokens {
    /// They are left out.
    #[default]
    Skipped,
    /// They are there.
    Shown,
}

/// When generation stops.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stops {
    /// Most output tokens; none: the worker decides.
    pub(crate) max_tokens: Option<u32>,
    /// Least output tokens.
    pub(crate) min_tokens: Option<u32>,
    /// Go on after an end token of the model.
    pub(crate) ignore_eos: bool,
    /// Texts that end the output.
    pub(crate) texts: Vec<String>,
    /// Tokens that end the output.
    pub(crate) token_ids: Vec<u32>,
    /// What happens to a stop text.
    pub(crate) stop_text: StopText,
    /// Most reasoning tokens.
    pub(crate) max_thinking_tokens: Option<u32>,
}

/// What chat and plain completions have in common.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// How the answer comes.
    pub(crate) delivery: Delivery,
    /// A stream ends with token counts.
    pub(crate) include_usage: bool,
    /// When generation stops.
    pub(crate) stops: Stops,
    /// Passed on.
    pub(crate) sampling: SamplingOptions,
    /// Special tokens in the text.
    pub(crate) special_tokens: SpecialTokens,
    /// Events at the head of a stream.
    pub(crate) annotations: Annotations,
    /// The prompt as tokens, in place of its text.
    pub(crate) token_data: Option<Vec<u32>>,
    /// Where the request goes.
    pub(crate) routing: RoutingHints,
}

impl Options {
    /// Takes them from the fields of a body.
    pub(crate) fn take(fields: &mut Fields<'_>, endpoint: Endpoint) -> Result<Self, ApiError> {
        let nvext = NvExt::take(fields)?;
        let delivery = match fields.boolean("stream")? {
            Some(true) => Delivery::Stream,
            _ => Delivery::Unary,
        };
        if nvext.annotations.any() && delivery == Delivery::Unary {
            return Err(ApiError::field(
                "nvext.annotations",
                "only a stream has events (allowed: with `stream`: true)",
            ));
        }
        Ok(Self {
            delivery,
            include_usage: include_usage(fields, delivery)?,
            stops: Stops { max_thinking_tokens: nvext.max_thinking_tokens, ..stops(fields, endpoint)? },
            sampling: sampling::take(fields)?,
            special_tokens: match fields.boolean("skip_special_tokens")? {
                Some(false) => SpecialTokens::Shown,
                _ => SpecialTokens::Skipped,
            },
            annotations: nvext.annotations,
            token_data: nvext.token_data,
            routing: priority(fields, nvext.routing)?,
        })
    }
}

fn include_usage(fields: &mut Fields<'_>, delivery: Delivery) -> Result<bool, ApiError> {
    let Some(mut options) = fields.object("stream_options")? else { return Ok(false) };
    if delivery == Delivery::Unary {
        return Err(ApiError::field("stream_options", "only a stream has them (allowed: with `stream`: true)"));
    }
    let wanted = options.boolean("include_usage").map_err(|error| error.within("stream_options"))?;
    options.end().map_err(|error| error.within("stream_options"))?;
    Ok(wanted.unwrap_or(false))
}

fn stops(fields: &mut Fields<'_>, endpoint: Endpoint) -> Result<Stops, ApiError> {
    let max_tokens = max_tokens(fields, endpoint)?;
    let min_tokens = fields.integer("min_tokens", 0..=MAX_OUTPUT_TOKENS)?;
    if let (Some(min), Some(max)) = (min_tokens, max_tokens)
        && min > max
    {
        return Err(ApiError::value("min_tokens", &min.to_string(), &format!("at most `max_tokens`, {max}")));
    }
    let texts = stop_texts(fields)?;
    let stop_text = match fields.boolean("include_stop_str_in_output")? {
        Some(true) if texts.is_empty() => {
            return Err(ApiError::field("include_stop_str_in_output", "needs `stop`"));
        }
        Some(true) => StopText::Kept,
        _ => StopText::Cut,
    };
    Ok(Stops {
        max_tokens,
        min_tokens,
        ignore_eos: fields.boolean("ignore_eos")?.unwrap_or(false),
        texts,
        token_ids: sampling::stop_token_ids(fields)?,
        stop_text,
        max_thinking_tokens: None,
    })
}

fn max_tokens(fields: &mut Fields<'_>, endpoint: Endpoint) -> Result<Option<u32>, ApiError> {
    let old = fields.integer("max_tokens", 1..=MAX_OUTPUT_TOKENS)?;
    if endpoint == Endpoint::Completions {
        return Ok(old);
    }
    let new = fields.integer("max_completion_tokens", 1..=MAX_OUTPUT_TOKENS)?;
    match (old, new) {
        (Some(old), Some(new)) if old != new => {
            let allowed = format!("the same as `max_tokens`, {old}, or only one of both");
            Err(ApiError::value("max_completion_tokens", &new.to_string(), &allowed))
        }
        _ => Ok(new.or(old)),
    }
}

fn stop_texts(fields: &mut Fields<'_>) -> Result<Vec<String>, ApiError> {
    let Some(raw) = fields.take("stop") else { return Ok(Vec::new()) };
    let check = |name: &str, raw| {
        let stop = text(name, raw)?;
        match stop.len() {
            1..=MAX_STOP_BYTES => Ok(stop.into_owned()),
            0 => Err(ApiError::value(name, "", "a string that is not empty")),
            long => Err(ApiError::field(name, format!("{long} bytes (allowed: at most {MAX_STOP_BYTES})"))),
        }
    };
    if !raw.get().starts_with('[') {
        if !raw.get().starts_with('"') {
            return Err(ApiError::value("stop", raw.get(), "a string or a list of strings"));
        }
        return Ok(vec![check("stop", raw)?]);
    }
    let list = super::fields::list("stop", raw)?;
    match list.len() {
        1..=MAX_STOPS => list.iter().enumerate().map(|(i, raw)| check(&format!("stop[{i}]"), raw)).collect(),
        many => Err(ApiError::field("stop", format!("{many} entries (allowed: 1 to {MAX_STOPS})"))),
    }
}

fn priority(fields: &mut Fields<'_>, mut routing: RoutingHints) -> Result<RoutingHints, ApiError> {
    let Some(priority) = fields.integer("priority", i32::MIN..=i32::MAX)? else { return Ok(routing) };
    if routing.priority.is_some_and(|other| other != priority) {
        let allowed = "the same as `nvext.agent_hints.priority`, or only one of both";
        return Err(ApiError::value("priority", &priority.to_string(), allowed));
    }
    routing.priority = Some(priority);
    Ok(routing)
}
