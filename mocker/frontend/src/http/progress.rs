//! One answer while it is made: what its outputs mean for text, counts and end.

use std::time::{Duration, Instant};

use dynosim_wire::protocol::{EngineOutput, FinishReason};
use dynosim_wire::time;

use super::service::{Finished, Observer, Outcome, Service};
use crate::generate::GenerateError;
use crate::openai::answer::{Reason, Usage};
use crate::text::answer::{AnswerText, Progress};

/// One answer while it is made.
pub(crate) struct Answer<S: Service> {
    model: S::Model,
    text: AnswerText,
    observer: S::Observer,
    usage: Usage,
    detokenize: Duration,
    /// Tokens that came and the observer was not told of.
    untold: u32,
}

/// What an output did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There may be new text; the answer goes on.
    On,
    /// There may be new text; the answer is complete.
    End(Reason),
    /// The worker gave up.
    Failed(String),
}

impl<S: Service> Answer<S> {
    pub(crate) fn new(model: S::Model, text: AnswerText, observer: S::Observer, prompt_tokens: u32) -> Self {
        let usage = Usage { prompt_tokens, ..Usage::default() };
        Self { model, text, observer, usage, detokenize: Duration::ZERO, untold: 0 }
    }

    /// Takes an output, appends its text.
    pub(crate) fn take(&mut self, output: &EngineOutput, out: &mut String) -> Step {
        if let Some(usage) = &output.completion_usage {
            let details = usage.prompt_tokens_details.as_ref();
            self.usage.cached_tokens = details.and_then(|details| details.cached_tokens).or(self.usage.cached_tokens);
            let details = usage.completion_tokens_details.as_ref();
            let reasoning = details.and_then(|details| details.reasoning_tokens);
            self.usage.reasoning_tokens = reasoning.or(self.usage.reasoning_tokens);
        }
        let before = self.text.tokens();
        let progress = self.text.push(self.model.as_ref(), &output.token_ids, out);
        self.untold += self.text.tokens() - before;
        if progress == Progress::Over {
            return Step::End(Reason::Stop);
        }
        let reason = match &output.finish_reason {
            None => return Step::On,
            Some(FinishReason::Error(reason)) => return Step::Failed(reason.clone()),
            Some(FinishReason::Length) => Reason::Length,
            Some(FinishReason::ContentFilter) => Reason::ContentFilter,
            Some(FinishReason::Eos | FinishReason::Stop | FinishReason::Cancelled) => Reason::Stop,
        };
        self.text.finish(self.model.as_ref(), out);
        Step::End(reason)
    }

    /// All outputs that had come were taken since `begin`.
    pub(crate) fn pause(&mut self, begin: Instant) {
        self.detokenize += begin.elapsed();
        if self.untold > 0 {
            self.observer.tokens(std::mem::take(&mut self.untold), begin);
        }
    }

    /// Token counts so far.
    pub(crate) fn usage(&self) -> Usage {
        Usage { completion_tokens: self.text.tokens(), ..self.usage }
    }

    /// The answer is over.
    pub(crate) fn finish(&mut self, outcome: Outcome) {
        if self.untold > 0 {
            self.observer.tokens(std::mem::take(&mut self.untold), time::now());
        }
        self.observer.finish(Finished {
            outcome,
            output_tokens: self.text.tokens(),
            cached_tokens: self.usage.cached_tokens,
            detokenize: self.detokenize,
        });
    }
}

/// An answer that ended without saying why.
pub(crate) fn broken_off() -> GenerateError {
    GenerateError::Failed("the answer broke off".to_owned())
}
