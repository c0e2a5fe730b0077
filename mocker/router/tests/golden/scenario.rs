//! Reading operations.

use dynosim_router::{Request, Target, hash};
use serde_json::Value;

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// A number that may be missing.
pub(crate) fn number_or(value: &Value, missing: u64) -> u64 {
    value.as_u64().unwrap_or(missing)
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

pub(crate) fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().into_iter().flatten().map(number).collect()
}

pub(crate) fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|item| text(item).to_owned()).collect()
}

pub(crate) fn target(op: &Value) -> Target {
    Target { worker: number(&op["worker"]), rank: number_or(&op["rank"], 0) as u32 }
}

fn splitmix64(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Tokens of a recipe.
pub(crate) fn tokens(recipe: &Value) -> Vec<u32> {
    let mut tokens = Vec::new();
    for segment in recipe.as_array().into_iter().flatten() {
        if segment["ids"].is_array() {
            tokens.extend(numbers(&segment["ids"]).into_iter().map(|id| id as u32));
            continue;
        }
        let (stream, start) = (number(&segment["stream"]), number_or(&segment["offset"], 0));
        let token = |at| (1000 + splitmix64((stream << 32) | at) % 30_000) as u32;
        tokens.extend((start..start + number(&segment["len"])).map(token));
    }
    tokens
}

/// What a request points into.
pub(crate) struct Ask {
    tokens: u32,
    pub(crate) blocks: Vec<u64>,
    sequence: Vec<u64>,
    allowed: Option<Vec<u64>>,
    pinned: Option<Target>,
    required: Vec<String>,
    preferred: Vec<(String, f64)>,
    track: Option<bool>,
    jump: f64,
    strict: u32,
    session: Option<String>,
}

impl Ask {
    pub(crate) fn new(op: &Value, block_size: u32) -> Self {
        let prompt = tokens(&op["prompt"]);
        let (mut length, mut blocks) = (prompt.len() as u32, numbers(&op["block_hashes"]));
        let mut sequence = numbers(&op["sequence_hashes"]);
        if op["prompt"].is_array() {
            blocks = hash::tokens_hashes(&prompt, block_size as usize, hash::Space::default(), &[]);
            sequence = hash::sequence_hashes(&blocks);
        } else {
            length = number(&op["isl_tokens"]) as u32;
        }
        let preferred = op["preferred_taints"].as_object().into_iter().flatten();
        Self {
            tokens: length,
            blocks,
            sequence,
            allowed: op["allowed"].is_array().then(|| numbers(&op["allowed"])),
            pinned: op["pinned"].as_array().map(|pin| Target { worker: number(&pin[0]), rank: number(&pin[1]) as u32 }),
            required: texts(&op["required_taints"]),
            preferred: preferred.map(|(name, weight)| (name.clone(), weight.as_f64().expect("a weight"))).collect(),
            track: op["track_prefill_tokens"].as_bool(),
            jump: op["priority_jump"].as_f64().unwrap_or(0.0),
            strict: number_or(&op["strict_priority"], 0) as u32,
            session: op["session_id"].as_str().map(ToOwned::to_owned),
        }
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            tokens: self.tokens,
            block_hashes: &self.blocks,
            sequence_hashes: &self.sequence,
            allowed: self.allowed.as_deref(),
            pinned: self.pinned,
            required_taints: &self.required,
            preferred_taints: &self.preferred,
            track_prefill_tokens: self.track,
            priority_jump: self.jump,
            strict_priority: self.strict,
            session: self.session.as_deref(),
            policy_class: None,
        }
    }
}
