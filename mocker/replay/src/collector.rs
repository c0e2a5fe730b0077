//! Turns steps into samples: the times at which each request got its tokens.

use dynosim_engine::{Admission, Nanos, Pass, Reasoning, Step};

use crate::digest::{Digest, Happened};
use crate::live::{Live, LiveId, LiveRequests};
use crate::pools::Stage;
use crate::records::{Record, TerminalStatus};
use crate::samples::{Samples, Weighted};
use crate::sla::Sla;

/// Counts and samples of a run.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    pub(crate) sla: Sla,
    pub(crate) digest: Digest,
    /// Rows per request, if wanted.
    pub(crate) records: Option<Vec<Record>>,
    /// Choices of routers that were to be explained.
    pub(crate) explanations: Vec<String>,
    pub(crate) reasoning: Option<Reasoning>,
    pub(crate) requests: u64,
    pub(crate) completed: u64,
    pub(crate) rejected: u64,
    pub(crate) preemptions: u64,
    pub(crate) passes: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) reasoning_tokens: u64,
    pub(crate) first_reused_tokens: u64,
    pub(crate) reused_tokens: u64,
    pub(crate) prefill_tokens: u64,
    pub(crate) good_requests: u64,
    pub(crate) good_output_tokens: u64,
    pub(crate) last_token: Nanos,
    pub(crate) ttft: Samples,
    pub(crate) ttst: Samples,
    pub(crate) tpot: Samples,
    pub(crate) e2e: Samples,
    pub(crate) itl: Weighted,
}

impl Collector {
    /// A step of a worker is over.
    pub(crate) fn step_ended(&mut self, step: &Step, worker: u32) {
        self.digest.add(step.end(), Happened::StepEnded, u64::from(worker));
    }

    /// Records one rank's part of a finished step; `slots` finds the request of a scheduler's slot.
    pub(crate) fn rank_step(
        &mut self,
        step: &Step,
        rank: usize,
        slots: &[LiveId],
        lives: &mut LiveRequests,
        stage: Stage,
    ) {
        let pass = &step.ranks[rank];
        if step.ends.is_empty() {
            return;
        }
        self.passes += step.ends.len() as u64;
        // A decode worker computes only what nobody else has.
        let prefill = if stage == Stage::Decode { &pass.local_prefill } else { &pass.prefill };
        self.prefill_tokens += prefill.new_tokens;
        self.preemptions += pass.preempted.len() as u64;
        for preempted in &pass.preempted {
            self.digest.add(step.end(), Happened::Preempted, u64::from(preempted.0));
        }
        for admission in &pass.admitted {
            note_admission(lives.get_mut(slots[admission.request.index()]), admission, step.start, stage);
        }
        // The token that a prefill worker makes is not seen by the client.
        if stage != Stage::Prefill {
            self.emissions(step, pass, slots, lives);
        }
    }

    /// Records the tokens of a step.
    fn emissions(&mut self, step: &Step, pass: &Pass, slots: &[LiveId], lives: &mut LiveRequests) {
        let first_end = step.ends[0];
        // Requests that got their last token as this step began share the durations of its passes.
        let mut in_step = 0;
        for emission in &pass.emitted {
            let live = lives.get_mut(slots[emission.request.index()]);
            if live.tokens > 0 && live.last_token == step.start {
                in_step += 1;
            } else if live.tokens > 0 {
                self.itl.push(first_end - live.last_token, 1);
            }
            note_tokens(live, emission.tokens, step);
            if emission.tokens > 1 {
                self.itl.push(Nanos::ZERO, (emission.tokens - 1) * step.ends.len() as u32);
            }
        }
        // A request that joined late in a longer step still saw its further passes.
        let total = pass.emitted.len() as u32;
        self.digest.add(step.end(), Happened::Tokens, u64::from(total) * step.ends.len() as u64);
        let mut before = step.start;
        for (index, &end) in step.ends.iter().enumerate() {
            let weight = if index == 0 { in_step } else { total };
            if weight > 0 {
                self.itl.push(end - before, weight);
            }
            before = end;
        }
    }

    /// Takes in what another part of the run has collected.
    pub(crate) fn append(&mut self, other: Self) {
        // All fields by name: one that is added cannot be forgotten.
        let Self {
            sla: _,
            digest,
            records,
            explanations,
            reasoning: _,
            requests,
            completed,
            rejected,
            preemptions,
            passes,
            input_tokens,
            output_tokens,
            reasoning_tokens,
            first_reused_tokens,
            reused_tokens,
            prefill_tokens,
            good_requests,
            good_output_tokens,
            last_token,
            ttft,
            ttst,
            tpot,
            e2e,
            itl,
        } = other;
        self.digest.append(digest);
        if let (Some(own), Some(mut others)) = (&mut self.records, records) {
            own.append(&mut others);
        }
        self.explanations.extend(explanations);
        self.requests += requests;
        self.completed += completed;
        self.rejected += rejected;
        self.preemptions += preemptions;
        self.passes += passes;
        self.input_tokens += input_tokens;
        self.output_tokens += output_tokens;
        self.reasoning_tokens += reasoning_tokens;
        self.first_reused_tokens += first_reused_tokens;
        self.reused_tokens += reused_tokens;
        self.prefill_tokens += prefill_tokens;
        self.good_requests += good_requests;
        self.good_output_tokens += good_output_tokens;
        self.last_token = self.last_token.max(last_token);
        self.ttft.append(ttft);
        self.ttst.append(ttst);
        self.tpot.append(tpot);
        self.e2e.append(e2e);
        self.itl.append(itl);
    }

    /// A request has made all its tokens.
    pub(crate) fn completed(&mut self, live: &Live, session: impl FnOnce() -> String) {
        let ttft = live.first_token - live.arrival;
        let e2e = live.last_token - live.arrival;
        self.completed += 1;
        self.digest.add(live.last_token, Happened::Completed, live.turn.row);
        self.last_token = self.last_token.max(live.last_token);
        self.input_tokens += u64::from(live.turn.input_tokens);
        self.output_tokens += u64::from(live.tokens);
        self.first_reused_tokens += u64::from(live.first_cached);
        self.reused_tokens += u64::from(live.last_cached);
        self.ttft.push(ttft);
        self.e2e.push(e2e);
        if live.tokens > 1 {
            let gaps = u64::from(live.tokens - 1);
            self.ttst.push(live.second_token - live.first_token);
            self.tpot.push(Nanos((e2e - ttft).0 / gaps));
        }
        if self.sla.is_kept(ttft, e2e, live.tokens) {
            self.good_requests += 1;
            self.good_output_tokens += u64::from(live.tokens);
        }
        if let Some(reasoning) = &self.reasoning {
            self.reasoning_tokens += u64::from(reasoning.thinking_tokens(live.tokens));
        }
        self.record(live, session, TerminalStatus::Completed, None);
    }

    /// Adds a row, if rows are wanted.
    pub(crate) fn record(
        &mut self,
        live: &Live,
        session: impl FnOnce() -> String,
        status: TerminalStatus,
        rejection: Option<String>,
    ) {
        if let Some(records) = &mut self.records {
            records.push(Record::new(live, session(), status, rejection, self.reasoning.as_ref()));
        }
    }
}

/// Notes that a request has entered a running batch.
fn note_admission(live: &mut Live, admission: &Admission, at: Nanos, stage: Stage) {
    if stage == Stage::Decode {
        live.course.decode_admit.get_or_insert(at);
        return;
    }
    live.last_cached = admission.cached_tokens.min(live.turn.input_tokens);
    if live.first_admit.is_none() {
        live.first_admit = Some(at);
        live.first_cached = live.last_cached;
    }
}

/// Notes the tokens that a request got in every pass of a step.
fn note_tokens(live: &mut Live, per_pass: u32, step: &Step) {
    if live.tokens < 2 {
        let ends = || step.ends.iter().flat_map(|&end| std::iter::repeat_n(end, per_pass as usize));
        if live.tokens == 0 {
            live.first_token = step.ends[0];
        }
        if let Some(second) = ends().nth(1 - live.tokens as usize) {
            live.second_token = second;
        }
    }
    live.tokens += per_pass * step.ends.len() as u32;
    live.last_token = step.end();
}

#[cfg(test)]
mod tests {
    use dynosim_engine::{Emission, RequestId};

    use super::*;

    /// A run of 3 passes of 10 ms from 100 ms on, with one request for each way into it.
    #[test]
    fn every_gap_between_two_tokens_counts_once() {
        let ms = |ms: f64| Nanos::from_ms(ms);
        let mut lives = LiveRequests::default();
        let mut live = |tokens, last: f64| {
            let live = Live { tokens, first_token: ms(50.0), last_token: ms(last), ..Live::default() };
            lives.insert(live, Vec::new())
        };
        let slots = [
            live(1, 100.0), // was in the pass before: gaps 10 10 10
            live(0, 0.0),   // its first token comes with the first pass: gaps 10 10
            live(5, 60.0),  // was thrown out for a while: gaps 50 10 10
            live(3, 100.0), // gets two tokens in each pass: gaps 10 0 10 0 10 0
        ];
        let emitted = [1, 1, 1, 2].into_iter().enumerate();
        let emitted = emitted.map(|(slot, tokens)| Emission { request: RequestId(slot as u32), tokens }).collect();
        let step = Step {
            start: ms(100.0),
            ends: [110.0, 120.0, 130.0].map(ms).to_vec(),
            ranks: vec![Pass { emitted, ..Pass::default() }],
        };
        let mut collector = Collector::default();
        collector.rank_step(&step, 0, &slots, &mut lives, Stage::Whole);

        let gaps = collector.itl.summary_ms();
        assert_eq!((gaps.count, gaps.min, gaps.max), (14, 0.0, 50.0));
        assert!((gaps.mean * 14.0 - 150.0).abs() < 1e-9, "ten gaps of 10 ms and one of 50, not {gaps:?}");
        let seen = slots.map(|slot| {
            let live = lives.get_mut(slot);
            (live.tokens, live.first_token, live.second_token, live.last_token)
        });
        assert_eq!(seen[0], (4, ms(50.0), ms(110.0), ms(130.0)));
        assert_eq!(seen[1], (3, ms(110.0), ms(120.0), ms(130.0)));
        assert_eq!((seen[2].0, seen[2].3), (8, ms(130.0)));
        assert_eq!((seen[3].0, seen[3].3), (9, ms(130.0)));
    }
}
