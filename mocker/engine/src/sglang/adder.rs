//! Admission: the budgets of one prefill batch.

use super::kv::Kv;
use super::ratio::Ratio;
use super::slot::{Slot, Slots};
use crate::request::RequestId;

/// Tokens per request that must stay free under the ignore-EOS test.
const IGNORE_EOS_SPARE: f64 = 1.0;

/// What an admission attempt says about going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Try the next one.
    Continue,
    /// KV memory is exhausted.
    NoToken,
    /// The batch is large enough.
    Other,
}

/// What is left of the budgets of one prefill batch, in tokens.
#[derive(Clone, Debug)]
pub(super) struct Adder {
    page_size: u32,
    /// Cap of the output reserved for one request.
    clip: u32,
    ratio: f64,
    input: i64,
    chunk: Option<i64>,
    /// Reserved of free and evictable tokens, future output included.
    total_reserved: f64,
    /// Reserved of free and evictable tokens by this batch alone.
    current_reserved: u64,
    /// Ignore-EOS test: output left and tokens held, by output left. Filled at its first use.
    lives: Vec<(f64, f64)>,
    lives_filled: bool,
}

/// How much of a candidate is computed in this batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Tokens to compute.
    pub(super) extend: u32,
    /// The prompt goes on in the next batch.
    pub(super) cut: bool,
}

impl Adder {
    /// Budgets before anything is admitted.
    pub(super) fn new(page_size: u32, clip: u32, ratio: &Ratio, input: u32, chunk: Option<u32>) -> Self {
        Self {
            page_size,
            clip,
            ratio: ratio.current(),
            input: i64::from(input),
            chunk: chunk.map(i64::from),
            total_reserved: 0.0,
            current_reserved: 0,
            lives: Vec::new(),
            lives_filled: false,
        }
    }

    /// Starts anew, keeping the buffer.
    pub(super) fn reset(&mut self, ratio: &Ratio, input: u32, chunk: Option<u32>) {
        let mut lives = std::mem::take(&mut self.lives);
        lives.clear();
        *self = Self { lives, ..Self::new(self.page_size, self.clip, ratio, input, chunk) };
    }

    /// Reserves for the future output of a running request.
    pub(super) fn reserve_running(&mut self, slot: &Slot) {
        self.total_reserved += f64::from(slot.remaining().min(self.clip)) * self.share_of(slot);
    }

    /// Tokens left for prompts and outputs.
    pub(super) fn total(&self, kv: &Kv) -> f64 {
        (kv.available() + kv.evictable()) as f64 - self.total_reserved
    }

    fn current(&self, kv: &Kv) -> i64 {
        (kv.available() + kv.evictable()) as i64 - self.current_reserved as i64
    }

    fn rounded(&self, tokens: u32) -> u64 {
        u64::from(tokens.div_ceil(self.page_size)) * u64::from(self.page_size)
    }

    /// The pending chunked request: always goes on, by what the budgets leave, or by a chunk if they leave nothing.
    pub(super) fn continue_chunk(&mut self, kv: &Kv, slot: &Slot) -> Share {
        let rest = slot.known() - slot.computed;
        let extend = match self.chunk {
            None => rest,
            Some(chunk) => {
                let budget = chunk.min(self.total(kv) as i64);
                let budget = if budget <= 0 { chunk } else { budget };
                rest.min(budget.clamp(1, i64::from(u32::MAX)) as u32)
            }
        };
        let share = Share { extend, cut: extend < rest };
        self.charge(slot, share);
        share
    }

    /// The usual test of a candidate whose `slot.computed` cached tokens are locked already.
    pub(super) fn test(&mut self, kv: &Kv, slot: &Slot, batch: usize, chunk_pending: bool) -> Result<Share, Verdict> {
        let rest = slot.known() - slot.computed;
        if self.chunk.is_some_and(|chunk| chunk <= 0) {
            return Err(Verdict::Other);
        }
        let need = u64::from(rest) + u64::from(slot.remaining().min(self.clip)) + u64::from(self.page_size);
        if need as f64 >= self.total(kv) {
            return Err(Verdict::NoToken);
        }
        let rounded = self.rounded(rest) as i64;
        let share = match self.chunk {
            None if batch > 0 && rounded >= self.input => return Err(Verdict::Other),
            Some(chunk) if rounded > chunk => {
                let cut = chunk.max(0) as u32 / self.page_size * self.page_size;
                if cut == 0 || chunk_pending {
                    return Err(Verdict::Other);
                }
                Share { extend: cut, cut: true }
            }
            _ => Share { extend: rest, cut: false },
        };
        self.charge(slot, share);
        Ok(share)
    }

    /// The test without prefix cache for clients that ignore EOS: the outputs are certain, so walk through the future
    /// and see that memory suffices until every request has ended.
    pub(super) fn test_ignore_eos(
        &mut self,
        kv: &Kv,
        slots: &Slots,
        candidate: RequestId,
        running: &[RequestId],
        batch: &[RequestId],
    ) -> Result<Share, Verdict> {
        let slot = &slots[candidate];
        let rest = slot.known() - slot.computed;
        let input = self.rounded(rest) + u64::from(self.page_size);
        let room = self.current(kv);
        if input as f64 > (room as f64).min(self.total(kv)) {
            return Err(Verdict::NoToken);
        }
        if self.lives_filled {
            self.insert_life(slot);
        } else {
            self.lives_filled = true;
            let everyone = std::iter::once(&candidate).chain(running).chain(batch);
            for &id in everyone {
                self.lives.extend(self.life(&slots[id]));
            }
            self.lives.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        if !self.survives(room as f64 - input as f64) {
            return Err(Verdict::NoToken);
        }
        let share = match self.chunk {
            Some(chunk) if i64::from(rest) > chunk => {
                if chunk <= 0 {
                    return Err(Verdict::Other);
                }
                Share { extend: chunk as u32, cut: true }
            }
            _ => Share { extend: rest, cut: false },
        };
        self.charge(slot, share);
        Ok(share)
    }

    /// After an admission: is there anything left?
    pub(super) fn state(&self, kv: &Kv) -> Verdict {
        if self.total(kv) <= 0.0 || self.current(kv) <= 0 {
            Verdict::NoToken
        } else if self.input <= 0 || self.chunk.is_some_and(|chunk| chunk <= 0) {
            Verdict::Other
        } else {
            Verdict::Continue
        }
    }

    fn charge(&mut self, slot: &Slot, share: Share) {
        let rounded = self.rounded(share.extend);
        let output = if share.cut { 0 } else { slot.limit.min(self.clip) };
        let with_page = rounded + u64::from(self.page_size);
        self.total_reserved += (with_page + u64::from(output)) as f64;
        self.current_reserved += with_page;
        self.input -= rounded as i64;
        if let Some(chunk) = &mut self.chunk {
            *chunk -= rounded as i64;
        }
    }

    /// Output of a client that ignores EOS is certain.
    fn share_of(&self, slot: &Slot) -> f64 {
        if slot.ignore_eos { 1.0 } else { self.ratio }
    }

    fn life(&self, slot: &Slot) -> Option<(f64, f64)> {
        let left = f64::from(slot.limit) * self.share_of(slot) - f64::from(slot.outputs);
        (left > 0.0).then(|| (left, f64::from(slot.known())))
    }

    /// A later candidate goes before the first longer life; if there is none, before the last one (as in `SGLang`).
    fn insert_life(&mut self, slot: &Slot) {
        if let Some(life) = self.life(slot) {
            let at = self.lives.iter().position(|other| life.0 <= other.0);
            self.lives.insert(at.unwrap_or(self.lives.len().saturating_sub(1)), life);
        }
    }

    fn survives(&self, room: f64) -> bool {
        let mut freed = 0.0;
        for (i, &(left, held)) in self.lives.iter().enumerate() {
            let alive = (self.lives.len() - i) as f64;
            if room + freed - left * alive <= IGNORE_EOS_SPARE * alive {
                return false;
            }
            freed += held;
        }
        true
    }
}
