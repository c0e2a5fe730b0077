//! Arguments that are small objects, or text with a structure of its own.

use super::fields::{SGLANG, TRTLLM};
use super::input::Input;
use super::read::{Draft, apply};
use super::{ArgsError, TimingSettings};
use crate::mtp::NEXTN_MAX;
use crate::reasoning::Reasoning;
use crate::timing::{Fixed, Linear};

pub(super) fn sglang(draft: &mut Draft, input: &Input<'_>) -> Result<(), ArgsError> {
    match input.optional(Input::object)? {
        Some(object) => apply(draft, object, &format!("{}.", input.path), &[SGLANG]),
        None => Ok(()),
    }
}

pub(super) fn trtllm(draft: &mut Draft, input: &Input<'_>) -> Result<(), ArgsError> {
    match input.optional(Input::object)? {
        Some(object) => apply(draft, object, &format!("{}.", input.path), &[TRTLLM]),
        None => Ok(()),
    }
}

pub(super) fn reasoning(input: &Input<'_>) -> Result<Reasoning, ArgsError> {
    input.only(&["start_thinking_token_id", "end_thinking_token_id", "thinking_ratio"])?;
    Ok(Reasoning {
        start_thinking_token_id: input.member("start_thinking_token_id")?.u32(0)?,
        end_thinking_token_id: input.member("end_thinking_token_id")?.u32(0)?,
        thinking_ratio: input.member("thinking_ratio")?.share()?,
    })
}

#[derive(Clone, Copy)]
enum Kind {
    Polynomial,
    Fixed,
    Linear,
}

/// A published model that comes later.
const EXTERNAL: &str = "external";

pub(super) fn timing_model(input: &Input<'_>) -> Result<TimingSettings, ArgsError> {
    let kinds = [("polynomial", Kind::Polynomial), ("fixed", Kind::Fixed), ("linear", Kind::Linear)];
    let kind = input.member("type")?;
    if kind.value.as_str().is_some_and(|name| name.eq_ignore_ascii_case(EXTERNAL)) {
        return Err(ArgsError::Unsupported {
            field: kind.path,
            found: format!("{EXTERNAL:?}"),
            feature: "performance databases are",
            allowed: "\"polynomial\", \"fixed\", \"linear\", or a profile in `planner_profile_data`",
        });
    }
    match kind.choice(&kinds)? {
        Kind::Polynomial => {
            input.only(&["type"])?;
            Ok(TimingSettings::Polynomial)
        }
        Kind::Fixed => {
            input.only(&["type", "prefill_ms", "decode_ms"])?;
            let prefill_ms = input.member("prefill_ms")?.duration_ms()?;
            let decode_ms = input.member("decode_ms")?.duration_ms()?;
            Ok(TimingSettings::Fixed(Fixed { prefill_ms, decode_ms }))
        }
        Kind::Linear => linear(input).map(TimingSettings::Linear),
    }
}

/// All coefficients have to be given but the two refinements of a plain linear cost.
fn linear(input: &Input<'_>) -> Result<Linear, ArgsError> {
    input.only(&[
        "type",
        "pass_ms",
        "weights_ms",
        "prefill_ms_per_token",
        "attention_ms_per_token_pair",
        "decode_ms_per_request",
        "decode_ms_per_kv_token",
    ])?;
    let given = |key| input.member(key)?.duration_ms();
    let or_zero = |key| if input.object()?.contains_key(key) { given(key) } else { Ok(0.0) };
    Ok(Linear {
        pass_ms: given("pass_ms")?,
        weights_ms: or_zero("weights_ms")?,
        prefill_ms_per_token: given("prefill_ms_per_token")?,
        attention_ms_per_token_pair: or_zero("attention_ms_per_token_pair")?,
        decode_ms_per_request: given("decode_ms_per_request")?,
        decode_ms_per_kv_token: given("decode_ms_per_kv_token")?,
    })
}

/// Comma-separated conditional accept rates.
pub(super) fn accept_rates(input: &Input<'_>) -> Result<Vec<f64>, ArgsError> {
    let rate = |text: &str| text.trim().parse::<f64>().ok().filter(|rate| (0.0..=1.0).contains(rate));
    let rates: Option<Vec<f64>> = input.value.as_str().and_then(|text| text.split(',').map(rate).collect());
    match rates {
        Some(rates) if rates.len() <= NEXTN_MAX => Ok(rates),
        _ => Err(input.invalid(format!("a text of 1 to {NEXTN_MAX} numbers from 0 to 1 between commas"))),
    }
}
