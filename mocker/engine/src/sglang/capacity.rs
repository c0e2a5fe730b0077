//! Can a request ever run?

use super::Config;
use super::scheduler::Scheduler;
use crate::request::{Rejection, Role};

impl Scheduler {
    /// Whether a request could be admitted and run to its end, alone if need be.
    ///
    /// The rule is that of admission with everything free: prompt, output and one page must stay **below** the
    /// capacity. The output counts in full (admission reserves at most `clip_max_new_tokens`), because the request may
    /// come back from a retraction with most of it made. Without radix cache one page more, since the stricter test for
    /// clients that ignore EOS may apply. A request that fails would block the queue for ever.
    pub fn check(&self, prompt_tokens: u32, max_output_tokens: u32) -> Result<(), Rejection> {
        self.config.check(prompt_tokens, max_output_tokens)
    }
}

impl Config {
    /// Output tokens after which a request ends here.
    pub(super) fn output_limit(&self, prompt_tokens: u32, max_output_tokens: u32) -> u32 {
        let limit = match self.role {
            Role::Prefill => 1,
            Role::Aggregated | Role::Decode => max_output_tokens,
        };
        let room = self.max_model_len.map_or(u32::MAX, |len| len.saturating_sub(prompt_tokens));
        limit.min(room).max(1)
    }

    /// What [`Scheduler::check`] says of a scheduler with these settings.
    pub fn check(&self, prompt_tokens: u32, max_output_tokens: u32) -> Result<(), Rejection> {
        if let Some(max_model_len) = self.max_model_len.filter(|&limit| prompt_tokens >= limit) {
            return Err(Rejection::PromptReachesModelLength { prompt_tokens, max_model_len });
        }
        let page_size = u64::from(self.page_size);
        let capacity_tokens = self.capacity_tokens / page_size * page_size;
        let limit = u64::from(self.output_limit(prompt_tokens, max_output_tokens));
        let pages = if self.radix_cache { 1 } else { 2 };
        let needed_tokens = u64::from(prompt_tokens) + limit + pages * page_size + 1;
        if needed_tokens > capacity_tokens {
            return Err(Rejection::LargerThanCache { needed_tokens, capacity_tokens });
        }
        Ok(())
    }
}
