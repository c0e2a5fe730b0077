//! Requests that could never run to their end are refused before they block the queue.

use super::scheduler::Scheduler;
use super::{Capacity, Config};
use crate::mtp::Mtp;
use crate::request::Rejection;

impl Scheduler {
    /// Whether a request could run to its end, alone if need be.
    pub fn check(&self, prompt_tokens: u32, max_output_tokens: u32) -> Result<(), Rejection> {
        self.config.check(prompt_tokens, max_output_tokens)
    }
}

impl Config {
    /// Blocks for `tokens` tokens.
    pub(super) fn blocks_for(&self, tokens: u32) -> u32 {
        let tokens = self.max_model_len.map_or(tokens, |limit| tokens.min(limit));
        tokens.div_ceil(self.block_size)
    }

    /// Tokens beyond the scheduled ones that need blocks too: drafts.
    pub(super) fn lookahead(&self) -> u32 {
        self.mtp.as_ref().map_or(0, Mtp::drafts)
    }

    /// Whether a request could run to its end under these settings, alone if need be.
    pub fn check(&self, prompt_tokens: u32, max_output_tokens: u32) -> Result<(), Rejection> {
        let &Self { max_model_len, max_num_batched_tokens, enable_chunked_prefill, capacity, .. } = self;
        if let Some(max_model_len) = max_model_len.filter(|&limit| prompt_tokens >= limit) {
            return Err(Rejection::PromptReachesModelLength { prompt_tokens, max_model_len });
        }
        let end = prompt_tokens.saturating_add(max_output_tokens);
        let end = max_model_len.map_or(end, |limit| end.min(limit));
        // The last output token is never computed, but guaranteed-no-evict admission counts it.
        let tokens = if capacity == Capacity::GuaranteedNoEvict { end } else { end - 1 };
        let needed_blocks = u64::from(self.blocks_for(tokens.saturating_add(self.lookahead())));
        let usable_blocks = u64::from(self.num_gpu_blocks - 1);
        if needed_blocks > usable_blocks {
            return Err(Rejection::LargerThanPool { needed_blocks, usable_blocks });
        }
        match max_num_batched_tokens {
            Some(budget_tokens) if !enable_chunked_prefill && end - 1 > budget_tokens => {
                Err(Rejection::LargerThanPass { tokens: end - 1, budget_tokens })
            }
            _ => Ok(()),
        }
    }
}
