//! What it costs to send a request to a rank. The lowest cost wins.
//!
//! ```text
//! bs = block size, isl = prompt tokens, N = ceil(isl / bs)
//! A  = active prefill tokens of the rank, R = its active requests
//! D  = its active blocks with this request added
//! C  = credit · fade · device + host weight · host + disk weight · disk      cached blocks; 0 if credit is 0
//! fade = 1 / (1 + decay · ((A − least A of the candidates) / bs) / N)
//! cost = scale · max(0, (A + isl) / bs − C) + D + active weight · R          prefill tokens tracked
//! cost = max(0, D − C) + active weight · R                                   not tracked
//! ```
//!
//! Source: Dynamo's router 1.6.1, measured call by call.

use serde::Serialize;

use crate::config::RouterConfig;
use crate::event::Target;
use crate::index::Slot;
use crate::request::{Matched, Request};

/// A rank that a request may go to, with all that its cost comes from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// The rank.
    pub target: Target,
    #[serde(skip)]
    pub(crate) slot: Slot,
    /// What it has cached of the prompt.
    pub matched: Matched,
    /// Prompt tokens that it has yet to compute.
    pub active_prefill_tokens: u64,
    /// Its open requests.
    pub active_requests: u32,
    /// Active blocks with this request, partial blocks left out.
    pub decode_blocks: u32,
    /// Prompt tokens of this request that it has to compute.
    pub effective_prefill_tokens: u32,
    /// Factor on the credit for device blocks, since it has more to compute than others.
    pub fade: f64,
    /// Cached blocks as they count.
    pub credit: f64,
    /// Factor of preferred taints.
    pub preference: f64,
    /// The cost, in blocks.
    pub cost: f64,
}

/// The numbers of the cost function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    block_size: f64,
    credit: f64,
    decay: f64,
    scale: f64,
    host: f64,
    disk: f64,
    active: f64,
    track_prefill: bool,
}

impl Rules {
    pub(crate) fn new(config: &RouterConfig, block_size: u32) -> Self {
        Self {
            block_size: f64::from(block_size),
            credit: config.credit(),
            decay: config.overlap_score_credit_decay,
            scale: config.scale(),
            host: config.host_cache_hit_weight,
            disk: config.disk_cache_hit_weight,
            active: config.decode_active_request_weight,
            track_prefill: config.router_track_prefill_tokens,
        }
    }

    /// Whether prompt tokens of a request count.
    pub(crate) fn tracks(&self, request: &Request<'_>) -> bool {
        request.track_prefill_tokens.unwrap_or(self.track_prefill)
    }

    /// Blocks of a prompt, a partial one included.
    pub(crate) fn blocks(&self, tokens: u32) -> u32 {
        (f64::from(tokens) / self.block_size).ceil() as u32
    }

    /// Prompt tokens that are left to compute; credit, fade and scale do not matter.
    pub(crate) fn effective(&self, tokens: u32, matched: Matched) -> u32 {
        let below = self.host * f64::from(matched.host) + self.disk * f64::from(matched.disk);
        let cached = ((f64::from(matched.device) + below) * self.block_size).round();
        (f64::from(tokens) - cached).max(0.0) as u32
    }

    /// Prices all candidates.
    pub(crate) fn price(&self, request: &Request<'_>, candidates: &mut [Candidate]) {
        let least = candidates.iter().map(|candidate| candidate.active_prefill_tokens).min().unwrap_or(0);
        let tracked = self.tracks(request);
        let blocks = f64::from(self.blocks(request.tokens));
        for candidate in candidates {
            if self.decay > 0.0 && blocks > 0.0 {
                let excess = (candidate.active_prefill_tokens - least) as f64 / self.block_size;
                candidate.fade = 1.0 / (1.0 + self.decay * excess / blocks);
            }
            let Matched { device, host, disk } = candidate.matched;
            if self.credit > 0.0 {
                candidate.credit = self.credit * candidate.fade * f64::from(device)
                    + self.host * f64::from(host)
                    + self.disk * f64::from(disk);
            }
            let decode = f64::from(candidate.decode_blocks);
            let waiting = candidate.active_prefill_tokens + u64::from(request.tokens);
            let work = if tracked {
                self.scale * (waiting as f64 / self.block_size - candidate.credit).max(0.0) + decode
            } else {
                (decode - candidate.credit).max(0.0)
            };
            candidate.cost = (work + self.active * f64::from(candidate.active_requests)) * candidate.preference;
        }
    }
}
