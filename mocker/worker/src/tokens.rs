//! Output tokens: a function of request and position, so that nobody has to keep them.

use std::sync::Arc;

use dynosim_engine::hash::mix;
use dynosim_engine::{OutputKind, Reasoning};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Ids that outputs are drawn from (`dynamo-mocker` 1.6.1), as far as the vocabulary has them.
const DRAWN_FROM: std::ops::Range<u32> = 1000..2000;
/// Names the stream of a request that has an id only.
const BY_ID: u64 = u64::from_be_bytes(*b"by an id");
/// Names the stream of a request that has a sampling seed.
const BY_SEED: u64 = u64::from_be_bytes(*b"by aseed");
/// Draws before the next allowed id is taken.
const DRAWS_MAX: u64 = 8;

/// The ids that outputs are drawn from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    low: u32,
    span: u32,
    ends: Vec<u32>,
}

impl Vocabulary {
    /// For a model of `size` tokens, unknown if none, whose outputs end with one of `ends`.
    pub fn new(size: Option<u32>, ends: &[u32]) -> Self {
        let size = size.unwrap_or(DRAWN_FROM.end).max(1);
        let high = DRAWN_FROM.end.min(size);
        // Of a small vocabulary the upper half: bytes and special tokens stand below.
        let low = if high > DRAWN_FROM.start { DRAWN_FROM.start } else { high / 2 };
        Self { low, span: high - low, ends: ends.to_vec() }
    }

    /// One id for a random number; never one of `ends` or `more_ends`, unless there is no other.
    fn draw(&self, seed: u64, position: u32, more_ends: &[u32]) -> u32 {
        let allowed = |token: &u32| !self.ends.contains(token) && !more_ends.contains(token);
        let pick = |attempt: u64| {
            let random = mix(seed, u64::from(position) | (attempt << 32)) >> 32;
            self.low + ((random * u64::from(self.span)) >> 32) as u32
        };
        let drawn = (0..DRAWS_MAX).map(pick).find(allowed);
        let any = || (self.low..self.low + self.span).find(allowed).unwrap_or(self.low);
        drawn.unwrap_or_else(any)
    }
}

#[derive(Clone, Debug)]
enum Source {
    Drawn { seed: u64 },
    Given(Arc<[u32]>),
}

/// The output of one request.
#[derive(Clone, Debug)]
pub struct OutputTokens {
    vocabulary: Arc<Vocabulary>,
    source: Source,
    /// End tokens of the request itself.
    ends: Box<[u32]>,
    reasoning: Option<Reasoning>,
    planned: u32,
}

impl OutputTokens {
    /// `planned` tokens drawn by the sampling seed, or by the request's id if it has none.
    pub fn drawn(
        vocabulary: &Arc<Vocabulary>,
        seed: Option<i64>,
        id: &str,
        ends: &[u32],
        reasoning: Option<Reasoning>,
        planned: u32,
    ) -> Self {
        let seed = match seed {
            Some(seed) => mix(BY_SEED, seed as u64),
            None => xxh3_64_with_seed(id.as_bytes(), BY_ID),
        };
        let ends = ends.iter().filter(|end| !vocabulary.ends.contains(end)).copied().collect();
        Self { vocabulary: vocabulary.clone(), source: Source::Drawn { seed }, ends, reasoning, planned }
    }

    /// The first `planned` of tokens that are given.
    pub fn given(vocabulary: &Arc<Vocabulary>, tokens: Arc<[u32]>, planned: u32) -> Self {
        let source = Source::Given(tokens);
        Self { vocabulary: vocabulary.clone(), source, ends: Box::default(), reasoning: None, planned }
    }

    /// How many there will be.
    pub fn planned(&self) -> u32 {
        self.planned
    }

    /// The token at `position`, from 0.
    pub fn get(&self, position: u32) -> u32 {
        let seed = match &self.source {
            Source::Drawn { seed } => *seed,
            Source::Given(tokens) => return tokens.get(position as usize).copied().unwrap_or_default(),
        };
        let drawn = || self.vocabulary.draw(seed, position, &self.ends);
        let Some(reasoning) = &self.reasoning else { return drawn() };
        match reasoning.kind(position, self.planned) {
            OutputKind::Start => reasoning.start_thinking_token_id,
            OutputKind::End => reasoning.end_thinking_token_id,
            OutputKind::Thinking | OutputKind::Answer => drawn(),
        }
    }

    /// Reasoning tokens among the first `tokens`, marks included.
    pub fn reasoning_tokens(&self, tokens: u32) -> u32 {
        self.reasoning.map_or(0, |reasoning| reasoning.thinking_tokens(self.planned).min(tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(vocabulary: Vocabulary, seed: Option<i64>, id: &str) -> Vec<u32> {
        let output = OutputTokens::drawn(&Arc::new(vocabulary), seed, id, &[1500], None, 4096);
        (0..4096).map(|position| output.get(position)).collect()
    }

    #[test]
    fn tokens_cover_the_published_range_and_leave_end_tokens_out() {
        let tokens = drawn(Vocabulary::new(Some(2048), &[1001]), None, "a");
        assert!(tokens.iter().all(|token| DRAWN_FROM.contains(token) && ![1001, 1500].contains(token)));
        let distinct: std::collections::BTreeSet<_> = tokens.iter().collect();
        assert!(distinct.len() > 950, "{} of 998 ids", distinct.len());
    }

    #[test]
    fn tokens_depend_on_the_seed_or_else_on_the_id() {
        let of = |seed, id| drawn(Vocabulary::new(None, &[]), seed, id);
        assert_eq!(of(None, "a"), of(None, "a"));
        assert_ne!(of(None, "a"), of(None, "b"));
        assert_eq!(of(Some(1), "a"), of(Some(1), "b"));
        assert_ne!(of(Some(1), "a"), of(Some(2), "a"));
    }

    #[test]
    fn tokens_stay_inside_a_small_vocabulary() {
        for (size, allowed) in [(1200, 1000..1200), (1000, 500..1000), (258, 129..258), (1, 0..1)] {
            let tokens = drawn(Vocabulary::new(Some(size), &[size / 2]), None, "a");
            assert!(tokens.iter().all(|token| allowed.contains(token)), "of {size}");
            assert_eq!(tokens.contains(&(size / 2)), size == 1, "of {size}");
        }
    }

    #[test]
    fn reasoning_marks_stand_where_the_published_rule_puts_them() {
        let reasoning = Reasoning { start_thinking_token_id: 7, end_thinking_token_id: 8, thinking_ratio: 0.5 };
        let output = OutputTokens::drawn(&Arc::new(Vocabulary::new(None, &[])), None, "a", &[], Some(reasoning), 10);
        let marks: Vec<_> = (0..10).filter(|&at| output.get(at) < 1000).collect();
        assert_eq!(marks, [0, 4]);
        assert_eq!((output.get(0), output.get(4)), (7, 8));
        assert_eq!((output.reasoning_tokens(3), output.reasoning_tokens(10)), (3, 5));
    }
}
