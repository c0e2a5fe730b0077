//! How tokens are drawn, and notes that clients attach.
//!
//! A simulated engine draws no text, so none of these can change an answer. Clients send them with every request, so
//! they are checked as the API states and then passed on (those that peers know) or dropped.

use dynosim_wire::protocol::SamplingOptions;
use serde_json::value::RawValue;

use super::error::ApiError;
use super::fields::{Fields, integer, text};

/// Most entries of `logit_bias` and `metadata` that are looked at.
const MAX_NOTES: usize = 1024;

/// Takes all of them.
pub(crate) fn take(fields: &mut Fields<'_>) -> Result<SamplingOptions, ApiError> {
    logit_bias(fields)?;
    notes(fields)?;
    fields.number("min_p", 0.0..=1.0)?;
    fields.number("repetition_penalty", f32::MIN_POSITIVE..=2.0)?;
    Ok(SamplingOptions {
        n: choices(fields)?,
        presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?,
        frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?,
        temperature: fields.number("temperature", 0.0..=2.0)?,
        top_p: fields.number("top_p", 0.0..=1.0)?,
        top_k: fields.integer("top_k", -1..=i32::MAX)?,
        seed: fields.integer("seed", i64::MIN..=i64::MAX)?,
    })
}

/// One answer per request: more would be more work for the engine than a client could know of.
fn choices(fields: &mut Fields<'_>) -> Result<Option<u8>, ApiError> {
    let Some(raw) = fields.take("n") else { return Ok(None) };
    match raw.get() {
        "1" => Ok(Some(1)),
        other => Err(ApiError::value("n", other, "1")),
    }
}

fn logit_bias(fields: &mut Fields<'_>) -> Result<(), ApiError> {
    let Some(raw) = fields.take("logit_bias") else { return Ok(()) };
    for (key, bias) in pairs("logit_bias", raw)? {
        let name = || format!("logit_bias.{key}");
        if key.parse::<u32>().is_err() {
            return Err(ApiError::field(name(), "the name cannot be used (allowed: a token id)"));
        }
        match bias.get().parse::<f64>() {
            Ok(bias) if (-100.0..=100.0).contains(&bias) => {}
            _ => return Err(ApiError::value(name(), bias.get(), "a number from -100 to 100")),
        }
    }
    Ok(())
}

/// Notes for whoever keeps records: nothing here does.
fn notes(fields: &mut Fields<'_>) -> Result<(), ApiError> {
    for name in ["user", "safety_identifier", "prompt_cache_key"] {
        if fields.text(name)?.is_some_and(|text| text.is_empty()) {
            return Err(ApiError::value(name, "", "a string that is not empty"));
        }
    }
    if let Some(raw) = fields.take("metadata") {
        for (key, value) in pairs("metadata", raw)? {
            text(&format!("metadata.{key}"), value)?;
        }
    }
    fields.boolean("store")?;
    fields.word("service_tier", &["auto", "default", "flex", "scale", "priority", "fast"])?;
    Ok(())
}

fn pairs<'a>(name: &str, raw: &'a RawValue) -> Result<Vec<(String, &'a RawValue)>, ApiError> {
    if !raw.get().starts_with('{') {
        return Err(ApiError::value(name, raw.get(), "an object"));
    }
    let pairs: std::collections::BTreeMap<String, &RawValue> =
        serde_json::from_str(raw.get()).map_err(|e| ApiError::field(name, e.to_string()))?;
    match pairs.len() {
        0..=MAX_NOTES => Ok(pairs.into_iter().collect()),
        many => Err(ApiError::field(name, format!("{many} entries (allowed: at most {MAX_NOTES})"))),
    }
}

/// Takes a list of token ids that end the answer.
pub(crate) fn stop_token_ids(fields: &mut Fields<'_>) -> Result<Vec<u32>, ApiError> {
    let Some(list) = fields.list("stop_token_ids")? else { return Ok(Vec::new()) };
    if list.len() > MAX_NOTES {
        let detail = format!("{} entries (allowed: at most {MAX_NOTES})", list.len());
        return Err(ApiError::field("stop_token_ids", detail));
    }
    list.iter().enumerate().map(|(i, raw)| integer(&format!("stop_token_ids[{i}]"), raw, &(0..=u32::MAX))).collect()
}
