//! The random numbers of a generated trace.

use rand_distr::{Distribution, Exp1, Geometric, LogNormal, Zipf};

use super::GenerateOptions;
use crate::error::OptionError;
use crate::random::{Stream, stream};

/// Spread of the log-normal lengths.
const USER_SIGMA: f64 = 0.9;
const OUTPUT_SIGMA: f64 = 0.8;
/// Shortest text of a user and shortest output, in tokens.
const USER_TOKENS_MIN: f64 = 16.0;
const OUTPUT_TOKENS_MIN: f64 = 4.0;

/// One stream of random numbers per purpose.
#[derive(Debug)]
pub(super) struct Draws {
    starts: Stream,
    groups: (Stream, Zipf<f64>),
    turns: (Stream, Geometric),
    user: (Stream, LogNormal<f64>),
    output: (Stream, LogNormal<f64>),
    pauses: Stream,
}

impl Draws {
    pub(super) fn new(options: &GenerateOptions) -> Result<Self, OptionError> {
        let zipf = Zipf::new(f64::from(options.groups), options.zipf);
        let stream = |purpose| stream(options.seed, purpose);
        Ok(Self {
            starts: stream("starts"),
            groups: (stream("groups"), zipf.map_err(|_| refused("zipf", options.zipf))?),
            turns: (stream("turns"), geometric(options.mean_turns)?),
            user: (stream("user"), log_normal("median_user_tokens", options.median_user_tokens, USER_SIGMA)?),
            output: (stream("output"), log_normal("median_output_tokens", options.median_output_tokens, OUTPUT_SIGMA)?),
            pauses: stream("pauses"),
        })
    }

    pub(super) fn start_gap_us(&mut self, options: &GenerateOptions) -> u64 {
        let gap: f64 = Exp1.sample(&mut self.starts);
        (gap / options.conversation_rate_rps * 1e6) as u64
    }

    pub(super) fn pause_us(&mut self, options: &GenerateOptions) -> u64 {
        let pause: f64 = Exp1.sample(&mut self.pauses);
        (pause * options.mean_think_ms * 1e3) as u64
    }

    pub(super) fn group(&mut self) -> usize {
        self.groups.1.sample(&mut self.groups.0) as usize - 1
    }

    pub(super) fn turns(&mut self) -> u64 {
        self.turns.1.sample(&mut self.turns.0).saturating_add(1)
    }

    pub(super) fn user_tokens(&mut self) -> u64 {
        self.user.1.sample(&mut self.user.0).max(USER_TOKENS_MIN) as u64
    }

    pub(super) fn output_tokens(&mut self, options: &GenerateOptions) -> u64 {
        let most = f64::from(options.max_output_tokens);
        self.output.1.sample(&mut self.output.0).max(OUTPUT_TOKENS_MIN).min(most) as u64
    }
}

fn refused(name: &'static str, value: f64) -> OptionError {
    OptionError { name, value: value.to_string(), allowed: "what its distribution accepts" }
}

/// Trials up to the first success; the mean of one more is `mean`.
fn geometric(mean: f64) -> Result<Geometric, OptionError> {
    Geometric::new(1.0 / mean).map_err(|_| refused("mean_turns", mean))
}

fn log_normal(name: &'static str, median: f64, sigma: f64) -> Result<LogNormal<f64>, OptionError> {
    LogNormal::new(median.ln(), sigma).map_err(|_| refused(name, median))
}
