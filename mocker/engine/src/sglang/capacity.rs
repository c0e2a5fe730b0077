//! Can a request ever run?

use super::scheduler::Scheduler;
use crate::request::Rejection;

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
    /// The rule is that of admission with everything free: prompt, output and one page must stay **below** the
    /// capacity. The output counts in full (admission reserves at most `clip_max_new_tokens`), because the request may
    /// come back from a retraction with most of it made. Without radix cache one page more, since the stricter test for
    /// clients that ignore EOS may apply. A request that fails would block the queue for ever.
    pub fn can_ever_fit(&self, prompt_tokens: u32, max_output_tokens: u32) -> Result<(), TooLarge> {
        let page_size = u64::from(self.config.page_size);
        let capacity_tokens = u64::from(self.kv.pool.total()) * page_size;
        let limit = u64::from(self.output_limit(prompt_tokens, max_output_tokens));
        let pages = if self.config.radix_cache { 1 } else { 2 };
        let needed_tokens = u64::from(prompt_tokens) + limit + pages * page_size + 1;
        if needed_tokens <= capacity_tokens { Ok(()) } else { Err(TooLarge { needed_tokens, capacity_tokens }) }
    }
}
