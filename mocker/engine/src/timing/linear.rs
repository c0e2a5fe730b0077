//! One cost for the whole pass, linear in its work, for engines whose prompts and decodes share a forward pass.
//!
//! ```text
//!   pass = pass_ms + max(weights_ms, prefill_ms_per_token · T + decode_ms_per_request · n)
//!        + attention_ms_per_token_pair · A + decode_ms_per_kv_token · K
//! ```
//!
//! T: new prompt tokens. n: decoding requests. K: their tokens together. A: pairs of a new prompt token and a token it
//! attends to, from means over the requests of the pass: T · (prefix + T / 2) / requests.
//!
//! The first part is a roofline: matrix products take the time to read the weights or the time to compute, whichever is
//! longer. Attention and the reading of the KV cache come on top. Coefficients come from measurements of one model on
//! one GPU; there are no defaults.

use crate::pass::{DecodeBatch, PrefillBatch};

/// Coefficients of the timing model `linear`, in milliseconds; each finite and at least 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Linear {
    /// Of every pass: launches, sampling, the host.
    pub pass_ms: f64,
    /// Least time of the matrix products: reading the weights once.
    pub weights_ms: f64,
    /// Matrix products of one new prompt token.
    pub prefill_ms_per_token: f64,
    /// Attention of one new prompt token to one token.
    pub attention_ms_per_token_pair: f64,
    /// Matrix products, sampling and the host's work of one decoding request.
    pub decode_ms_per_request: f64,
    /// Reading one token of the KV cache for a decoding request.
    pub decode_ms_per_kv_token: f64,
}

impl Linear {
    /// Milliseconds of a pass; 0 if it is empty. Prompt work counts only if there are new tokens.
    #[inline]
    pub fn pass_ms(&self, prefill: PrefillBatch, decode: DecodeBatch) -> f64 {
        let prompts = if prefill.new_tokens == 0 { 0 } else { prefill.requests };
        if prompts == 0 && decode.requests == 0 {
            return 0.0;
        }
        let mut products = self.decode_ms_per_request * f64::from(decode.requests);
        let mut memory = 0.0;
        if decode.requests > 0 {
            memory = self.decode_ms_per_kv_token * decode.kv_tokens as f64;
        }
        if prompts > 0 {
            let tokens = prefill.new_tokens as f64;
            products += self.prefill_ms_per_token * tokens;
            let context = (prefill.prefix_tokens as f64 + tokens / 2.0) / f64::from(prompts);
            memory += self.attention_ms_per_token_pair * tokens * context;
        }
        // Never infinite, so that differences of two passes are numbers.
        (self.pass_ms + products.max(self.weights_ms) + memory).min(f64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: Linear = Linear {
        pass_ms: 1.0,
        weights_ms: 8.0,
        prefill_ms_per_token: 0.05,
        attention_ms_per_token_pair: 1e-5,
        decode_ms_per_request: 0.1,
        decode_ms_per_kv_token: 1e-4,
    };

    #[test]
    fn prompts_and_decodes_share_the_constant_and_the_weights() {
        let prefill = PrefillBatch { requests: 2, prefix_tokens: 1000, new_tokens: 200 };
        let decode = DecodeBatch { requests: 10, kv_tokens: 20_000 };
        let none = (PrefillBatch::default(), DecodeBatch::default());
        // Products 10 + 1, attention 200 · 550 pairs, KV 2.
        assert!((MODEL.pass_ms(prefill, decode) - (1.0 + 11.0 + 1.1 + 2.0)).abs() < 1e-12);
        assert!((MODEL.pass_ms(prefill, none.1) - (1.0 + 10.0 + 1.1)).abs() < 1e-12);
        assert!((MODEL.pass_ms(none.0, decode) - (1.0 + 8.0 + 2.0)).abs() < 1e-12);
        assert_eq!(MODEL.pass_ms(none.0, none.1).to_bits(), 0.0f64.to_bits());
    }

    #[test]
    fn prompts_without_new_tokens_cost_nothing() {
        let prefill = PrefillBatch { requests: 2, prefix_tokens: 1000, new_tokens: 0 };
        assert_eq!(MODEL.pass_ms(prefill, DecodeBatch::default()).to_bits(), 0.0f64.to_bits());
    }
}
