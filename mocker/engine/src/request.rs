//! What an engine is asked to do.

use crate::hash::BlockHashes;

/// A request inside one scheduler: the number of its slot. Slots are used again after a request has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

impl RequestId {
    /// As an index into per-slot arrays.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The part of the work that an engine does in a serving graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Prefill and decode.
    #[default]
    Aggregated,
    /// Prefill only: a request ends with its first token, and its KV is held until released.
    Prefill,
    /// Decode only: KV of the prompt is reserved, then materialised without prefill time.
    Decode,
}

/// A request as a scheduler takes it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Prompt length in tokens, at least 1.
    pub prompt_tokens: u32,
    /// The request ends after this many output tokens, at least 1.
    pub max_output_tokens: u32,
    /// Order under priority scheduling: lower runs first (vLLM's meaning). Ignored by first come, first served.
    pub priority: i32,
    /// `SGLang` only: the client asked to go on after an end-of-sequence token, so the whole output is reserved.
    pub ignore_eos: bool,
    /// Identity of the KV blocks.
    pub hashes: BlockHashes,
}

/// Why an engine refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Nothing to compute.
    #[error("prompt and output need at least one token each")]
    Empty,
    /// No room for an output token.
    #[error("prompt of {prompt_tokens} tokens reaches max_model_len {max_model_len}")]
    PromptReachesModelLength {
        /// Prompt length.
        prompt_tokens: u32,
        /// The limit.
        max_model_len: u32,
    },
    /// More KV than the pool has, even with nobody else there.
    #[error("needs {needed_blocks} KV blocks, the pool has {usable_blocks}")]
    LargerThanPool {
        /// Blocks for all its tokens.
        needed_blocks: u64,
        /// Blocks that can be handed out.
        usable_blocks: u64,
    },
    /// More KV tokens than the cache has, reserved output and slack included (`SGLang`).
    #[error("needs {needed_tokens} KV tokens, the cache has {capacity_tokens}")]
    LargerThanCache {
        /// Tokens that must be free for it.
        needed_tokens: u64,
        /// Tokens that there are.
        capacity_tokens: u64,
    },
    /// Without chunked prefill, a prompt has to be computed in one pass.
    #[error("needs {tokens} tokens in one pass without chunked prefill, max_num_batched_tokens is {budget_tokens}")]
    LargerThanPass {
        /// Tokens, as many as a resumed request may have to compute again.
        tokens: u32,
        /// The limit.
        budget_tokens: u32,
    },
}
