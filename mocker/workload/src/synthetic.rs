//! Requests of fixed lengths, made as they are asked for.
//!
//! Every prompt is `input_tokens` long. With prefix groups, the leading share of its blocks belongs to a group drawn
//! at random for each request; the other blocks are its own. The turns of a session do not extend each other.

use std::borrow::Cow;

use dynosim_engine::Nanos;
use rand_distr::{Distribution, Exp1};
use rustc_hash::FxHashMap;

use crate::error::{OptionError, WorkloadError};
use crate::prompt::{Kind, ROOT, append_chain};
use crate::random::{Stream, draw_below, stream};
use crate::row::{MAX_REQUEST_TOKENS, MAX_TIME_MS};
use crate::trace::check_block_size;
use crate::workload::{Part, Turn, Workload};

/// The seed if none is given.
pub const DEFAULT_SEED: u64 = 42;

/// When sessions arrive; the first one does at 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SessionArrivals {
    /// One every so many milliseconds; 0 for all at the start.
    Interval {
        /// 0 or more.
        ms: f64,
    },
    /// A Poisson process.
    Poisson {
        /// Sessions per second; above 0.
        rate_rps: f64,
        /// Equal seeds give equal arrivals.
        seed: u64,
    },
}

/// Leading blocks that prompts have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SharedPrefix {
    /// Share of a prompt's blocks, 0 to 1, rounded to whole blocks.
    pub ratio: f64,
    /// Number of different prefixes; without any, nothing is shared.
    pub groups: u32,
}

impl SharedPrefix {
    /// Fails unless the ratio is within 0 and 1; messages name the options `ratio` as given.
    pub fn check(&self, ratio: &'static str) -> Result<(), OptionError> {
        OptionError::unless((0.0..=1.0).contains(&self.ratio), ratio, &self.ratio, "0 to 1")
    }

    /// Number of leading blocks that a prompt of `blocks` blocks, the last perhaps partial, has from its group.
    pub fn blocks(&self, blocks: u32) -> u32 {
        if self.groups == 0 { 0 } else { (f64::from(blocks) * self.ratio).round() as u32 }
    }
}

/// What to make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyntheticOptions {
    /// Prompt length of every request in tokens; 1 or more.
    pub input_tokens: u32,
    /// Output length of every request in tokens; 1 or more.
    pub output_tokens: u32,
    /// Number of sessions, which are requests if they have one turn; 1 or more.
    pub request_count: u32,
    /// Requests per session; 1 or more.
    pub turns_per_session: u32,
    /// What prompts have in common.
    pub shared_prefix: SharedPrefix,
    /// Pause between the completion of a turn and the next one, in milliseconds.
    pub inter_turn_delay_ms: f64,
    /// When sessions arrive.
    pub arrivals: SessionArrivals,
    /// Tokens in a block of the engine; 1 or more.
    pub block_size: u32,
    /// Seeds the choice of prefix groups.
    pub seed: u64,
}

impl Default for SyntheticOptions {
    fn default() -> Self {
        Self {
            input_tokens: 1024,
            output_tokens: 128,
            request_count: 100,
            turns_per_session: 1,
            shared_prefix: SharedPrefix::default(),
            inter_turn_delay_ms: 0.0,
            arrivals: SessionArrivals::Interval { ms: 1.0 },
            block_size: 64,
            seed: DEFAULT_SEED,
        }
    }
}

impl SyntheticOptions {
    fn check(&self) -> Result<(), OptionError> {
        let counts = [
            ("input_tokens", self.input_tokens),
            ("output_tokens", self.output_tokens),
            ("request_count", self.request_count),
            ("turns_per_session", self.turns_per_session),
        ];
        for (name, count) in counts {
            OptionError::unless(count > 0, name, &count, "1 or more")?;
        }
        let total = u64::from(self.input_tokens) + u64::from(self.output_tokens);
        let allowed = "up to 67108864 tokens with the prompt";
        OptionError::unless(total <= MAX_REQUEST_TOKENS, "output_tokens", &self.output_tokens, allowed)?;
        self.shared_prefix.check("shared_prefix_ratio")?;
        check_ms("inter_turn_delay_ms", self.inter_turn_delay_ms)?;
        check_block_size("block_size", self.block_size)?;
        match self.arrivals {
            SessionArrivals::Interval { ms } => check_ms("arrival_interval_ms", ms),
            SessionArrivals::Poisson { rate_rps, .. } => {
                let holds = (1e-6..=1e9).contains(&rate_rps);
                OptionError::unless(holds, "request_rate", &rate_rps, "0.000001 to 1000000000 per second")
            }
        }
    }
}

fn check_ms(name: &'static str, ms: f64) -> Result<(), OptionError> {
    OptionError::unless((0.0..=MAX_TIME_MS).contains(&ms), name, &ms, "0 to 9000000000000 ms")
}

/// The made requests.
#[derive(Debug)]
pub struct Synthetic {
    options: SyntheticOptions,
    clock: Clock,
    /// Arrival of the next session.
    next_arrival: Nanos,
    /// Sessions taken, those of other parts included.
    taken: u32,
    part: Part,
    /// The turn that each session in its pause continues with.
    due: FxHashMap<u32, u32>,
}

#[derive(Debug)]
enum Clock {
    Interval { ms: f64 },
    Poisson { rate_rps: f64, stream: Stream },
}

impl Clock {
    /// The arrival of session `number`, after the one at `previous`.
    fn after(&mut self, previous: Nanos, number: u32) -> Nanos {
        match self {
            // A product, not a sum: rounding must not add up.
            Self::Interval { ms } => Nanos::from_ms(*ms * f64::from(number)),
            Self::Poisson { rate_rps, stream } => {
                let gap: f64 = Exp1.sample(stream);
                previous + Nanos::from_secs(gap / *rate_rps)
            }
        }
    }
}

impl Synthetic {
    /// Fails if an option is out of its range.
    pub fn new(options: SyntheticOptions) -> Result<Self, OptionError> {
        options.check()?;
        let clock = match options.arrivals {
            SessionArrivals::Interval { ms } => Clock::Interval { ms },
            SessionArrivals::Poisson { rate_rps, seed } => {
                Clock::Poisson { rate_rps, stream: stream(seed, "arrivals") }
            }
        };
        let due = FxHashMap::default();
        Ok(Self { options, clock, next_arrival: Nanos::ZERO, taken: 0, part: Part::WHOLE, due })
    }

    /// Lets sessions of other parts go by.
    fn skip_others(&mut self) {
        while self.taken % self.part.of != self.part.number && self.taken < self.options.request_count {
            self.pass_session();
        }
    }

    fn pass_session(&mut self) -> u32 {
        let session = self.taken;
        self.taken += 1;
        self.next_arrival = self.clock.after(self.next_arrival, self.taken);
        session
    }

    fn make(&self, session: u32, turn: u32, hashes: &mut Vec<u64>) -> Turn {
        let SyntheticOptions { input_tokens, output_tokens, block_size, shared_prefix, seed, .. } = self.options;
        let row = u64::from(session) * u64::from(self.options.turns_per_session) + u64::from(turn);
        let full = input_tokens / block_size;
        let shared = shared_prefix.blocks(input_tokens.div_ceil(block_size)).min(full);
        let mut chain = ROOT;
        if shared > 0 {
            let group = draw_below(seed, "prefix-group", row, shared_prefix.groups);
            chain = append_chain(chain, Kind::Shared, u64::from(group), shared, hashes);
        }
        append_chain(chain, Kind::Unique, row, full - shared, hashes);
        Turn { session, turn, row, input_tokens, output_tokens, ..Turn::default() }
    }
}

impl Workload for Synthetic {
    fn peek(&mut self) -> Result<Option<Nanos>, WorkloadError> {
        self.skip_others();
        Ok((self.taken < self.options.request_count).then_some(self.next_arrival))
    }

    fn take(&mut self, hashes: &mut Vec<u64>) -> Result<Option<Turn>, WorkloadError> {
        hashes.clear();
        self.skip_others();
        if self.taken == self.options.request_count {
            return Ok(None);
        }
        let session = self.pass_session();
        Ok(Some(self.make(session, 0, hashes)))
    }

    fn next_delay(&mut self, turn: &Turn) -> Option<Nanos> {
        let next = turn.turn + 1;
        (next < self.options.turns_per_session).then(|| {
            self.due.insert(turn.session, next);
            Nanos::from_ms(self.options.inter_turn_delay_ms)
        })
    }

    fn take_next(&mut self, session: u32, hashes: &mut Vec<u64>) -> Result<Turn, WorkloadError> {
        hashes.clear();
        let turn = self.due.remove(&session).ok_or(WorkloadError::NoTurn { session })?;
        Ok(self.make(session, turn, hashes))
    }

    fn part(&self, part: Part) -> Option<Box<dyn Workload + Send>> {
        if self.options.turns_per_session > 1 {
            return None;
        }
        let whole = Self::new(self.options).ok()?;
        Some(Box::new(Self { part, ..whole }))
    }

    fn total_requests(&self) -> u64 {
        self.total_sessions() * u64::from(self.options.turns_per_session)
    }

    fn total_sessions(&self) -> u64 {
        u64::from((self.options.request_count + self.part.of - 1 - self.part.number) / self.part.of)
    }

    fn session_name(&self, session: u32) -> Cow<'_, str> {
        let kind = if self.options.turns_per_session > 1 { "session" } else { "request" };
        format!("{kind}_{}", u64::from(session) + 1).into()
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashSet;

    use super::*;

    /// All requests as (arrival or pause, turn, hashes), session after session.
    fn all(options: SyntheticOptions) -> Vec<(Nanos, Turn, Vec<u64>)> {
        let mut workload = Synthetic::new(options).unwrap();
        let (mut found, mut hashes) = (Vec::new(), Vec::new());
        while let Some(time) = workload.peek().unwrap() {
            let mut turn = workload.take(&mut hashes).unwrap().unwrap();
            found.push((time, turn, hashes.clone()));
            while let Some(delay) = workload.next_delay(&turn) {
                turn = workload.take_next(turn.session, &mut hashes).unwrap();
                found.push((delay, turn, hashes.clone()));
            }
        }
        assert_eq!(found.len() as u64, workload.total_requests());
        found
    }

    #[test]
    fn sessions_arrive_at_an_interval_and_pause_between_turns() {
        let options = SyntheticOptions {
            request_count: 3,
            turns_per_session: 2,
            inter_turn_delay_ms: 0.5,
            arrivals: SessionArrivals::Interval { ms: 2.0 },
            ..SyntheticOptions::default()
        };
        let found = all(options);
        let times: Vec<u64> = found.iter().map(|(time, ..)| time.0 / 1000).collect();
        assert_eq!(times, [0, 500, 2000, 500, 4000, 500]);
        let places: Vec<_> = found.iter().map(|(_, turn, _)| (turn.session, turn.turn, turn.row)).collect();
        assert_eq!(places, [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3), (2, 0, 4), (2, 1, 5)]);
    }

    #[test]
    fn only_full_blocks_have_hashes_and_without_groups_nothing_is_shared() {
        let shared_prefix = SharedPrefix { ratio: 1.0, groups: 0 };
        let options = SyntheticOptions { input_tokens: 130, shared_prefix, ..SyntheticOptions::default() };
        let found = all(options);
        assert!(found.iter().all(|(_, _, hashes)| hashes.len() == 2));
        let distinct: FxHashSet<u64> = found.iter().flat_map(|(_, _, hashes)| hashes.iter().copied()).collect();
        assert_eq!(distinct.len(), 200);
    }

    #[test]
    fn groups_are_distinct_and_share_exactly_their_prefix() {
        let shared_prefix = SharedPrefix { ratio: 0.5, groups: 8 };
        let options = SyntheticOptions { request_count: 500, shared_prefix, ..SyntheticOptions::default() };
        let found = all(options);
        let heads: FxHashSet<&[u64]> = found.iter().map(|(_, _, hashes)| &hashes[..8]).collect();
        assert_eq!(heads.len(), 8);
        let distinct: FxHashSet<u64> = found.iter().flat_map(|(_, _, hashes)| hashes.iter().copied()).collect();
        assert_eq!(distinct.len(), 8 * 8 + 500 * 8);
    }

    #[test]
    fn a_ratio_of_one_shares_everything() {
        let shared_prefix = SharedPrefix { ratio: 1.0, groups: 1 };
        let options = SyntheticOptions { input_tokens: 100, shared_prefix, ..SyntheticOptions::default() };
        let found = all(options);
        assert!(found.iter().all(|(_, _, hashes)| *hashes == found[0].2 && hashes.len() == 1));
    }

    #[test]
    fn poisson_arrivals_have_their_rate_and_repeat() {
        let arrivals = SessionArrivals::Poisson { rate_rps: 100.0, seed: DEFAULT_SEED };
        let options = SyntheticOptions { request_count: 10_000, arrivals, ..SyntheticOptions::default() };
        let times = |options| all(options).iter().map(|(time, ..)| *time).collect::<Vec<_>>();
        let found = times(options);
        assert_eq!(found[0], Nanos::ZERO);
        assert!(found.is_sorted());
        let seconds = found[9999].as_secs();
        assert!((95.0..105.0).contains(&seconds), "{seconds}");
        assert_eq!(found, times(options));
        let other = SessionArrivals::Poisson { rate_rps: 100.0, seed: 43 };
        assert_ne!(found, times(SyntheticOptions { arrivals: other, ..options }));
    }

    #[test]
    fn a_turn_that_is_not_due_is_refused() {
        let mut workload = Synthetic::new(SyntheticOptions::default()).unwrap();
        let error = workload.take_next(5, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "session 5 has no turn waiting to be taken");
    }
}
