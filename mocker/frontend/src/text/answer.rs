//! The text of one answer as its tokens come, and when it ends.

use super::TextModel;
use super::detokenizer::Detokenizer;
use super::stops::{StopWatch, Watch};
use crate::openai::options::{SpecialTokens, Stops};

/// Whether an answer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It does.
    On,
    /// A stop text or an end token has come; later tokens do not count.
    Over,
}

/// The text of one answer.
#[derive(Debug)]
pub(crate) struct AnswerText {
    detokenizer: Detokenizer,
    watch: StopWatch,
    /// Tokens that end the answer.
    end_tokens: Vec<u32>,
    min_tokens: u32,
    /// Tokens so far, the one that ended the answer included.
    tokens: u32,
}

impl AnswerText {
    /// A new answer.
    pub(crate) fn new(model: &TextModel, stops: Stops, special_tokens: SpecialTokens) -> Self {
        let mut end_tokens = stops.token_ids;
        if !stops.ignore_eos {
            end_tokens.extend_from_slice(model.eos_token_ids());
        }
        Self {
            detokenizer: Detokenizer::new(special_tokens),
            watch: StopWatch::new(stops.texts, stops.stop_text),
            end_tokens,
            min_tokens: stops.min_tokens.unwrap_or(0),
            tokens: 0,
        }
    }

    /// Tokens so far.
    pub(crate) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Takes new tokens, appends their text.
    pub(crate) fn push(&mut self, model: &TextModel, tokens: &[u32], out: &mut String) -> Progress {
        for token in tokens {
            self.tokens = self.tokens.saturating_add(1);
            let may_end = self.tokens >= self.min_tokens;
            if may_end && self.end_tokens.contains(token) {
                self.finish(model, out);
                return Progress::Over;
            }
            if self.watch.is_idle() {
                self.detokenizer.push(model.decoder(), *token, out);
            } else if self.push_watched(model, *token, may_end, out) == Watch::Over {
                return Progress::Over;
            }
        }
        Progress::On
    }

    fn push_watched(&mut self, model: &TextModel, token: u32, may_end: bool, out: &mut String) -> Watch {
        let mut text = String::new();
        self.detokenizer.push(model.decoder(), token, &mut text);
        if may_end {
            return self.watch.push(&text, out);
        }
        out.push_str(&text);
        Watch::On
    }

    /// Appends what was held back, since no token follows.
    pub(crate) fn finish(&mut self, model: &TextModel, out: &mut String) {
        let mut rest = String::new();
        self.detokenizer.finish(model.decoder(), &mut rest);
        self.watch.release(out);
        out.push_str(&rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tests::model;

    fn run(stops: Stops, text: &str) -> (String, Progress, u32) {
        let model = model();
        let tokens = model.encode(text).unwrap();
        let mut answer = AnswerText::new(&model, stops, SpecialTokens::Skipped);
        let mut out = String::new();
        for token in tokens {
            if answer.push(&model, &[token], &mut out) == Progress::Over {
                return (out, Progress::Over, answer.tokens());
            }
        }
        answer.finish(&model, &mut out);
        (out, Progress::On, answer.tokens())
    }

    fn stop(text: &str) -> Stops {
        Stops { texts: vec![text.to_owned()], ..Stops::default() }
    }

    #[test]
    fn an_end_token_ends_the_answer_unless_it_is_to_be_ignored() {
        assert_eq!(run(Stops::default(), "ab<|eos|>cd"), ("ab".to_owned(), Progress::Over, 3));
        let ignored = Stops { ignore_eos: true, ..Stops::default() };
        assert_eq!(run(ignored, "ab<|eos|>cd"), ("abcd".to_owned(), Progress::On, 5));
    }

    #[test]
    fn nothing_ends_the_answer_before_its_least_tokens() {
        let stops = Stops { min_tokens: Some(6), ..stop("x") };
        assert_eq!(run(stops, "axbx<|eos|>cdxe"), ("axbxcd".to_owned(), Progress::Over, 8));
    }

    #[test]
    fn a_held_begin_of_a_stop_text_comes_out_at_the_end() {
        assert_eq!(run(stop("ENDE"), "the EN"), ("the EN".to_owned(), Progress::On, 6));
        assert_eq!(run(stop("EX"), "a E<|eos|>X"), ("a E".to_owned(), Progress::Over, 4));
    }
}
