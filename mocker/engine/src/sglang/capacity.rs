//! Can a request ever run?

use super::scheduler::Scheduler;
use crate::request::{Rejection, Role};

/// A request that an empty engine would not admit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// Tokens that must be free for it.
    pub needed_tokens: u64,
    /// Tokens that there are.
    pub capacity_tokens: u64,
}

impl Scheduler {
    /// Whether a request could run to its end, alone if need be.
    pub fn check(&self, prompt_tokens: u32, max_output_tokens: u32) -> Result<(), Rejection> {
        if let Some(max_model_len) = self.config.max_model_len.filter(|&limit| prompt_tokens >= limit) {
            return Err(Rejection::PromptReachesModelLength { prompt_tokens, max_model_len });
        }
        self.can_ever_fit(prompt_tokens, max_output_tokens).map_err(|too_large| {
            let TooLarge { needed_tokens, capacity_tokens } = too_large;
            Rejection::LargerThanCache { needed_tokens, capacity_tokens }
        })
    }

    /// Whether a lone request can be admitted and run to its end.
    ///
    /// The rules are those of admission with everything free: prompt, reserved output (at most
    /// `clip_max_new_tokens`) and one page must stay **below** the capacity, and all KV (prompt and outputs but the
    /// last, in whole pages) must fit. One that fails would block the queue for ever.
    pub fn can_ever_fit(&self, prompt_tokens: u32, max_output_tokens: u32) -> Result<(), TooLarge> {
        let page_size = u64::from(self.config.page_size);
        let capacity_tokens = u64::from(self.kv.pool.total()) * page_size;
        let prompt = u64::from(prompt_tokens);
        let limit = self.output_limit(prompt_tokens, max_output_tokens);
        let reserved = u64::from(limit.min(self.config.clip_max_new_tokens));
        let admission = prompt + reserved + page_size + 1;
        let all = (prompt + u64::from(limit) - 1).div_ceil(page_size) * page_size;
        // The decode role takes the prompt and one page without reserving output; what was retracted is admitted anew.
        let reservation = match self.config.role {
            Role::Decode => (prompt.div_ceil(page_size) + 1) * page_size,
            Role::Aggregated | Role::Prefill => 0,
        };
        let needed_tokens = admission.max(all).max(reservation);
        if needed_tokens <= capacity_tokens { Ok(()) } else { Err(TooLarge { needed_tokens, capacity_tokens }) }
    }
}
