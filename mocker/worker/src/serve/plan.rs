//! What will become of a request, decided before the engine sees it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dynosim_engine::Role;
use dynosim_engine::hash::mix;
use dynosim_wire::protocol::{BootstrapInfo, PreprocessedRequest};

use super::{EventTokens, Serving, Sharing};
use crate::blocks;
use crate::driver::NewRequest;
use crate::flight::Content;
use crate::pace::Prompt;
use crate::replayed::ReplayedOutputs;
use crate::tokens::OutputTokens;

/// Output tokens of a request that does not say how many, where nothing else limits it. (The published worker refuses
/// such requests.)
pub(crate) const DEFAULT_MAX_TOKENS: u32 = 1024;
/// Names the stream that sets requests without content apart.
const SALT: u64 = u64::from_be_bytes(*b"nosharin");

/// A request that can be run, unless it is too large for the engine.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) prompt_tokens: u32,
    pub(super) output: OutputTokens,
    pub(super) bootstrap: Option<BootstrapInfo>,
    pub(super) rank: Option<u32>,
    priority: i32,
    ignore_eos: bool,
    content: Content,
    salt: u64,
}

impl Plan {
    /// Decides; the error is for the client.
    pub(super) fn new(serving: &Serving, id: &str, request: &PreprocessedRequest) -> Result<Self, String> {
        let prompt = &request.token_ids;
        let prompt_tokens = u32::try_from(prompt.len()).map_err(|_| "the prompt is too long".to_owned())?;
        let rank = rank(serving, request)?;
        let output = output(serving, id, request, prompt_tokens)?;
        let blocks = match serving.sharing {
            Sharing::ByContent => blocks::plan(prompt, &output, serving.block_size),
            Sharing::None => Box::default(),
        };
        let tokens = match serving.event_tokens {
            EventTokens::Kept => Some((Arc::from(prompt.as_slice()), output.clone())),
            EventTokens::Dropped => None,
        };
        // Dynamo says larger is sooner, vLLM lower is sooner.
        let priority = request.routing.as_ref().and_then(|routing| routing.priority).unwrap_or(0).saturating_neg();
        Ok(Self {
            prompt_tokens,
            output,
            bootstrap: request.bootstrap_info.clone(),
            rank,
            priority,
            ignore_eos: request.stop_conditions.ignore_eos.unwrap_or(false),
            content: Content { blocks, tokens },
            salt: mix(SALT, serving.salts.fetch_add(1, Ordering::Relaxed)),
        })
    }

    /// The part that goes to the engine.
    pub(super) fn request(&mut self, prompt: Prompt) -> NewRequest {
        NewRequest {
            rank: self.rank,
            prompt,
            prompt_tokens: self.prompt_tokens,
            planned: self.output.planned(),
            priority: self.priority,
            ignore_eos: self.ignore_eos,
            content: std::mem::take(&mut self.content),
            salt: self.salt,
        }
    }
}

/// The rank that the router has chosen; a prefill worker has a hint of its own.
fn rank(serving: &Serving, request: &PreprocessedRequest) -> Result<Option<u32>, String> {
    let Some(routing) = &request.routing else { return Ok(None) };
    let rank = match serving.role() {
        Role::Prefill => routing.prefill_dp_rank.or(routing.dp_rank),
        Role::Aggregated | Role::Decode => routing.dp_rank,
    };
    let ranks = serving.config.dp_size;
    match rank {
        Some(rank) if rank >= ranks => Err(format!("dp_rank {rank} is out of range (allowed: 0 to {})", ranks - 1)),
        rank => Ok(rank),
    }
}

fn output(
    serving: &Serving,
    id: &str,
    request: &PreprocessedRequest,
    prompt_tokens: u32,
) -> Result<OutputTokens, String> {
    let stop = &request.stop_conditions;
    let room = serving.max_model_len.map(|limit| limit.saturating_sub(prompt_tokens).max(1));
    let within = |tokens: u32| room.map_or(tokens, |room| tokens.min(room));
    if serving.role() != Role::Prefill
        && let Some(tokens) = ReplayedOutputs::find(serving.replayed.as_ref(), &request.annotations)
    {
        let planned = within(u32::try_from(tokens.len()).unwrap_or(u32::MAX));
        return Ok(OutputTokens::given(&serving.vocabulary, tokens, planned));
    }
    let planned = match (serving.role(), stop.max_tokens) {
        (Role::Prefill, _) => 1,
        (_, Some(max_tokens)) => within(max_tokens),
        (_, None) => room.unwrap_or(DEFAULT_MAX_TOKENS),
    };
    // Prefill is asked for one token, whatever least number the client wants of all.
    let too_many = |least: &u32| serving.role() != Role::Prefill && stop.max_tokens.is_some_and(|most| *least > most);
    if let Some(min_tokens) = stop.min_tokens.filter(too_many) {
        let max_tokens = stop.max_tokens.unwrap_or_default();
        return Err(format!("min_tokens {min_tokens} is out of range (allowed: up to max_tokens, {max_tokens})"));
    }
    let hidden = stop.stop_token_ids_hidden.as_deref().unwrap_or_default();
    let ends: Vec<u32> = request.eos_token_ids.iter().chain(hidden).copied().collect();
    let seed = request.sampling_options.seed;
    Ok(OutputTokens::drawn(&serving.vocabulary, seed, id, &ends, serving.reasoning, planned))
}
