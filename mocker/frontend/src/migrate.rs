//! A request on its way through workers: when one is lost, what it has made so far goes on at the next.

use std::time::Instant;

use dynosim_wire::protocol::{CompletionUsage, EngineOutput, FinishReason, PreprocessedRequest};

/// Why a worker was lost, in the words of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveKind {
    /// Before its first output.
    NewRequest,
    /// In the midst of its output.
    OngoingRequest,
}

impl MoveKind {
    /// Name in metrics, as published.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::NewRequest => "new_request",
            Self::OngoingRequest => "ongoing_request",
        }
    }
}

/// What to do after a worker was lost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// Ask another worker.
    Move(MoveKind),
    /// All tokens were there; only the end was lost.
    End(FinishReason),
    /// It has moved as often as it may.
    GiveUp,
}

/// Where a request stands.
#[derive(Debug)]
pub(crate) struct Journey {
    /// What the next worker is asked: prompt and what was made so far. Without tokens once it can't move any more.
    pub(crate) request: PreprocessedRequest,
    prompt_tokens: u32,
    made: u32,
    /// The last token made.
    last: Option<u32>,
    asked_max: Option<u32>,
    asked_min: Option<u32>,
    moves_left: u32,
    max_sequence_tokens: Option<usize>,
    /// When the first loss that is not made good yet was seen.
    pub(crate) lost_at: Option<(MoveKind, Instant)>,
}

impl Journey {
    /// A request at its beginning.
    pub(crate) fn new(request: PreprocessedRequest, moves: u32, max_sequence_tokens: Option<usize>) -> Self {
        Self {
            prompt_tokens: request.token_ids.len() as u32,
            made: 0,
            last: None,
            asked_max: request.stop_conditions.max_tokens,
            asked_min: request.stop_conditions.min_tokens,
            moves_left: moves,
            max_sequence_tokens,
            lost_at: None,
            request,
        }
    }

    /// Tokens of the client's prompt.
    pub(crate) fn prompt_tokens(&self) -> u32 {
        self.prompt_tokens
    }

    /// Tokens made so far.
    pub(crate) fn made(&self) -> u32 {
        self.made
    }

    /// Takes an output in and makes its counts those of the whole journey. True if it has just become too long to move.
    pub(crate) fn took(&mut self, output: &mut EngineOutput) -> bool {
        let first = self.made == 0;
        self.made += output.token_ids.len() as u32;
        self.last = output.token_ids.last().copied().or(self.last);
        if let Some(usage) = &mut output.completion_usage {
            self.whole(usage);
        }
        if self.moves_left == 0 {
            if first {
                self.forget_tokens();
            }
            return false;
        }
        self.request.token_ids.extend_from_slice(&output.token_ids);
        let too_long = self.max_sequence_tokens.is_some_and(|most| self.request.token_ids.len() > most);
        if too_long {
            self.moves_left = 0;
            self.forget_tokens();
        }
        too_long
    }

    /// A later worker took what was made before for prompt.
    fn whole(&self, usage: &mut CompletionUsage) {
        usage.prompt_tokens = self.prompt_tokens;
        usage.completion_tokens = self.made;
        usage.total_tokens = self.prompt_tokens + self.made;
        if let Some(details) = &mut usage.prompt_tokens_details {
            details.cached_tokens = details.cached_tokens.map(|cached| cached.min(self.prompt_tokens));
        }
    }

    /// Thousands of streams need not keep prompts that nobody will ask for again.
    fn forget_tokens(&mut self) {
        self.request.token_ids = Vec::new();
    }

    /// The worker is lost; `now` begins the time of the move.
    pub(crate) fn lost(&mut self, now: Instant) -> Next {
        let conditions = &self.request.stop_conditions;
        if self.made > 0 && self.asked_max.is_some_and(|most| self.made >= most) {
            return Next::End(FinishReason::Length);
        }
        let ends = |token: &u32| {
            let hidden = conditions.stop_token_ids_hidden.as_ref().is_some_and(|ids| ids.contains(token));
            hidden || self.request.eos_token_ids.contains(token)
        };
        let enough = self.made >= self.asked_min.unwrap_or(0);
        if enough && conditions.ignore_eos != Some(true) && self.last.as_ref().is_some_and(ends) {
            return Next::End(FinishReason::Eos);
        }
        let kind = if self.made == 0 { MoveKind::NewRequest } else { MoveKind::OngoingRequest };
        if self.lost_at.is_none() {
            self.lost_at = Some((kind, now));
        }
        let Some(left) = self.moves_left.checked_sub(1) else { return Next::GiveUp };
        self.moves_left = left;
        let rest = |asked: Option<u32>| asked.map(|count| count.saturating_sub(self.made));
        let (max, min) = (rest(self.asked_max), rest(self.asked_min));
        self.request.stop_conditions.max_tokens = max;
        self.request.stop_conditions.min_tokens = min;
        Next::Move(kind)
    }

    /// The end that a worker did not live to tell.
    pub(crate) fn end(&self, reason: FinishReason) -> EngineOutput {
        let mut usage = CompletionUsage::default();
        self.whole(&mut usage);
        EngineOutput { finish_reason: Some(reason), completion_usage: Some(usage), ..EngineOutput::default() }
    }
}

#[cfg(test)]
mod tests {
    use dynosim_wire::protocol::StopConditions;

    use super::*;

    fn request(max: u32, min: Option<u32>) -> PreprocessedRequest {
        let stop_conditions = StopConditions { max_tokens: Some(max), min_tokens: min, ..StopConditions::default() };
        PreprocessedRequest { token_ids: vec![1, 2, 3], eos_token_ids: vec![99], stop_conditions, ..Default::default() }
    }

    fn output(tokens: &[u32]) -> EngineOutput {
        let completion_usage = Some(CompletionUsage { prompt_tokens: 77, ..CompletionUsage::default() });
        EngineOutput { token_ids: tokens.to_vec(), completion_usage, ..EngineOutput::default() }
    }

    fn now() -> Instant {
        dynosim_wire::time::now()
    }

    #[test]
    fn a_move_carries_what_was_made_and_asks_for_the_rest() {
        let mut journey = Journey::new(request(10, Some(4)), 2, None);
        let mut first = output(&[7, 8]);
        assert!(!journey.took(&mut first));
        assert_eq!(journey.lost(now()), Next::Move(MoveKind::OngoingRequest));
        assert_eq!(journey.request.token_ids, [1, 2, 3, 7, 8]);
        assert_eq!(journey.request.stop_conditions.max_tokens, Some(8));
        assert_eq!(journey.request.stop_conditions.min_tokens, Some(2));
        let mut second = output(&[9]);
        journey.took(&mut second);
        let usage = second.completion_usage.unwrap();
        assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (3, 3, 6));
        assert_eq!(journey.lost(now()), Next::Move(MoveKind::OngoingRequest));
        assert_eq!(journey.request.stop_conditions.max_tokens, Some(7));
        assert_eq!(journey.lost(now()), Next::GiveUp);
    }

    #[test]
    fn an_end_that_was_lost_is_told_and_not_asked_for_again() {
        let mut journey = Journey::new(request(2, None), 0, None);
        journey.took(&mut output(&[7, 8]));
        assert_eq!(journey.lost(now()), Next::End(FinishReason::Length));
        let mut journey = Journey::new(request(5, None), 3, None);
        journey.took(&mut output(&[7, 99]));
        assert_eq!(journey.lost(now()), Next::End(FinishReason::Eos));
    }

    #[test]
    fn a_request_that_cannot_move_keeps_no_tokens() {
        let mut journey = Journey::new(request(9, None), 0, None);
        journey.took(&mut output(&[7]));
        assert_eq!(journey.request.token_ids.capacity(), 0);
        let mut long = Journey::new(request(9, None), 3, Some(4));
        assert!(!long.took(&mut output(&[7])));
        assert!(long.took(&mut output(&[8])));
        assert_eq!(long.request.token_ids.capacity(), 0);
        assert_eq!(long.lost(now()), Next::GiveUp);
    }

    #[test]
    fn before_the_first_output_a_move_is_that_of_a_new_request() {
        let mut journey = Journey::new(request(9, None), 1, None);
        assert_eq!(journey.lost(now()), Next::Move(MoveKind::NewRequest));
        assert_eq!(journey.request.stop_conditions.max_tokens, Some(9));
        assert_eq!(journey.lost(now()), Next::GiveUp);
    }
}
