//! Can a request ever run?

use super::scheduler::Scheduler;
use crate::request::Rejection;

impl Scheduler {
    /// Whether a request could be admitted and run to its end, alone if need be.
    ///
    /// The rule is that of admission with everything free: prompt, output and one page must stay **below** the
    /// capacity. The output counts in full (admission reserves at most `clip_max_new_tokens`), because the request may
    /// come back from a retraction with most of it made. Without radix cache one page more, since the stricter test for
    /// clients that ignore EOS may apply. A request that fails would block the queue for ever.
    pub fn check(&self, prompt_tokens: u32, max_output_tokens: u32) -> Result<(), Rejection> {
        if let Some(max_model_len) = self.config.max_model_len.filter(|&limit| prompt_tokens >= limit) {
            return Err(Rejection::PromptReachesModelLength { prompt_tokens, max_model_len });
        }
        let page_size = u64::from(self.config.page_size);
        let capacity_tokens = u64::from(self.kv.pool.total()) * page_size;
        let limit = u64::from(self.output_limit(prompt_tokens, max_output_tokens));
        let pages = if self.config.radix_cache { 1 } else { 2 };
        let needed_tokens = u64::from(prompt_tokens) + limit + pages * page_size + 1;
        if needed_tokens > capacity_tokens {
            return Err(Rejection::LargerThanCache { needed_tokens, capacity_tokens });
        }
        Ok(())
    }
}
