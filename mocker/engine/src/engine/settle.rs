//! The part of a run that is over.

use super::{Activity, Engine, Step};
use crate::pass::DecodeBatch;
use crate::time::Nanos;

impl Engine {
    /// Ends those passes of a run in progress that have ended by `now`, as a step of their own; the others go on as
    /// planned. None if no pass of a run has ended.
    ///
    /// Who must know by `now` what the run has done calls this, and sees what single passes would have shown. If a pass
    /// ends just at `now`, none goes on: the engine is idle.
    pub fn settle(&mut self, now: Nanos) -> Option<&Step> {
        if self.activity != Activity::Run {
            return None;
        }
        let ended = self.step.ends.partition_point(|&end| end <= now);
        if ended == 0 {
            return None;
        }
        self.planned.clear();
        self.planned.extend(self.step.ends.drain(ended..));
        let decode = self.step.ranks[0].decode;
        self.advance();
        if self.planned.is_empty() || self.step.end() == now {
            self.activity = Activity::Idle;
            return Some(&self.step);
        }
        std::mem::swap(&mut self.step, &mut self.settled);
        self.step.clear(self.settled.end());
        self.step.ends.extend_from_slice(&self.planned);
        let kv_tokens = decode.kv_tokens + u64::from(decode.requests) * ended as u64;
        self.step.ranks[0].decode = DecodeBatch { kv_tokens, ..decode };
        self.activity = Activity::Run;
        Some(&self.settled)
    }
}
