//! Mooncake-like traces of any size, written row by row.
//!
//! Conversations start at random and begin with one of several system prompts, some far more popular than others.
//! Each turn's prompt is the context so far and new text of the user; the output then joins the context. Every
//! `block_size` tokens have one hash id; a partial last block has an id that no other row has. Only conversations
//! under way are held in memory.

mod draws;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::io::{self, Write};

use rand::RngExt;

use self::draws::Draws;
use crate::error::OptionError;
use crate::random::stream;

/// What to generate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GenerateOptions {
    /// Number of rows; 1 or more.
    pub requests: u64,
    /// Equal options with equal seeds give equal bytes.
    pub seed: u64,
    /// Conversations that start per second.
    pub conversation_rate_rps: f64,
    /// Tokens per hash id; 1 or more.
    pub block_size: u32,
    /// Number of system prompts; 1 or more.
    pub groups: u32,
    /// Exponent of the popularity of system prompts; 0 makes them equally popular.
    pub zipf: f64,
    /// Turns of a conversation on average; 1 or more.
    pub mean_turns: f64,
    /// A conversation ends before its prompt is longer than this, in tokens.
    pub max_input_tokens: u32,
    /// Median length of the user's new text, in tokens.
    pub median_user_tokens: f64,
    /// Median length of an output, in tokens.
    pub median_output_tokens: f64,
    /// Longest output, in tokens.
    pub max_output_tokens: u32,
    /// Pause of the user between turns on average, in milliseconds.
    pub mean_think_ms: f64,
    /// Whether later turns wait for the ones before.
    pub loop_kind: LoopKind,
}

/// Whether later turns wait for the ones before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoopKind {
    /// Every row has a timestamp and no session; rows are in time order.
    #[default]
    Open,
    /// Rows have a session; turns after the first have a delay instead of a timestamp.
    Closed,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            requests: 10_000,
            seed: 7,
            conversation_rate_rps: 8.0,
            block_size: 512,
            groups: 48,
            zipf: 1.1,
            mean_turns: 3.0,
            max_input_tokens: 32_768,
            median_user_tokens: 700.0,
            median_output_tokens: 180.0,
            max_output_tokens: 1500,
            mean_think_ms: 8000.0,
            loop_kind: LoopKind::Open,
        }
    }
}

/// Largest system prompt in blocks, as a power of two.
const SYSTEM_BLOCKS_LOG2_MAX: u32 = 4;
/// Time that an output token is assumed to take in an open loop, in milliseconds.
const TOKEN_MS: f64 = 12.0;

impl GenerateOptions {
    fn check(&self) -> Result<(), OptionError> {
        let counts = [
            ("requests", self.requests, u64::from(u32::MAX) - 1, "1 to 4294967294"),
            ("block_size", self.block_size.into(), 1 << 20, "1 to 1048576"),
            ("groups", self.groups.into(), 1 << 20, "1 to 1048576"),
            ("max_input_tokens", self.max_input_tokens.into(), 1 << 30, "1 to 1073741824"),
            ("max_output_tokens", self.max_output_tokens.into(), 1 << 30, "1 to 1073741824"),
        ];
        for (name, count, most, allowed) in counts {
            OptionError::unless((1..=most).contains(&count), name, &count, allowed)?;
        }
        let floats = [
            ("conversation_rate_rps", self.conversation_rate_rps, 1e-6..=1e6, "0.000001 to 1000000 per second"),
            ("zipf", self.zipf, 0.0..=10.0, "0 to 10"),
            ("mean_turns", self.mean_turns, 1.0..=1e6, "1 to 1000000"),
            ("median_user_tokens", self.median_user_tokens, 1.0..=1e9, "1 to 1000000000"),
            ("median_output_tokens", self.median_output_tokens, 1.0..=1e9, "1 to 1000000000"),
            ("mean_think_ms", self.mean_think_ms, 0.0..=1e9, "0 to 1000000000 ms"),
        ];
        floats.into_iter().try_for_each(|(name, value, range, allowed)| {
            OptionError::unless(range.contains(&value), name, &value, allowed)
        })
    }
}

/// Why a trace could not be generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// An option has a value that it must not have.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The trace cannot be written.
    #[error("cannot write the trace: {0}")]
    Write(#[from] io::Error),
}

/// Writes a trace and tells how many conversations it begins.
pub fn generate(options: &GenerateOptions, output: &mut impl Write) -> Result<u64, GenerateError> {
    options.check()?;
    let mut generator = Generator::new(*options)?;
    let mut line = Vec::new();
    for _ in 0..options.requests {
        let (conversation, turn) = generator.next_turn();
        line.clear();
        write_row(&mut line, options, &conversation, turn)?;
        output.write_all(&line)?;
        generator.proceed(conversation, turn);
    }
    output.flush()?;
    Ok(generator.started)
}

/// A conversation that has another turn.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Conversation {
    /// When the turn is due; the order of these fields is the order of the heap.
    due_us: u64,
    number: u64,
    /// Turns written and turns left.
    turn: u64,
    left: u64,
    /// Pause before the turn.
    pause_us: u64,
    /// Ids of the whole blocks of the context, and the tokens after them.
    ids: Vec<u64>,
    tail: u64,
}

/// Lengths and the id of the unfinished last block.
#[derive(Clone, Copy, Debug)]
struct TurnShape {
    input_tokens: u64,
    output_tokens: u64,
    tail_id: Option<u64>,
}

impl Conversation {
    fn tokens(&self, block_size: u32) -> u64 {
        self.ids.len() as u64 * u64::from(block_size) + self.tail
    }

    fn grow(&mut self, tokens: u64, block_size: u32, next_id: &mut u64) {
        self.tail += tokens;
        while self.tail >= u64::from(block_size) {
            self.tail -= u64::from(block_size);
            self.ids.push(take_id(next_id));
        }
    }
}

fn take_id(next_id: &mut u64) -> u64 {
    *next_id += 1;
    *next_id - 1
}

#[derive(Debug)]
struct Generator {
    options: GenerateOptions,
    draws: Draws,
    /// First id and number of blocks of each system prompt.
    systems: Vec<(u64, u64)>,
    next_id: u64,
    under_way: BinaryHeap<Reverse<Conversation>>,
    next_start_us: u64,
    started: u64,
}

impl Generator {
    fn new(options: GenerateOptions) -> Result<Self, OptionError> {
        let mut sizes = stream(options.seed, "system-prompts");
        let most = u64::from(options.max_input_tokens / options.block_size / 2);
        let mut next_id = 0;
        let system = |_| {
            let blocks = (1u64 << sizes.random_range(0..=SYSTEM_BLOCKS_LOG2_MAX)).min(most);
            next_id += blocks;
            (next_id - blocks, blocks)
        };
        let systems = (0..options.groups).map(system).collect();
        let mut draws = Draws::new(&options)?;
        let next_start_us = draws.start_gap_us(&options);
        Ok(Self { options, draws, systems, next_id, under_way: BinaryHeap::new(), next_start_us, started: 0 })
    }

    /// The next turn in time order.
    fn next_turn(&mut self) -> (Conversation, TurnShape) {
        loop {
            let waiting = self.under_way.peek().is_some_and(|Reverse(first)| first.due_us <= self.next_start_us);
            let next = if waiting { self.under_way.pop() } else { None };
            let mut conversation = next.map_or_else(|| self.start(), |Reverse(waiting)| waiting);
            if let Some(shape) = self.speak(&mut conversation) {
                return (conversation, shape);
            }
        }
    }

    fn start(&mut self) -> Conversation {
        let due_us = self.next_start_us;
        self.next_start_us += self.draws.start_gap_us(&self.options);
        let (first, blocks) = self.systems[self.draws.group()];
        let number = self.started;
        self.started += 1;
        let ids = (first..first + blocks).collect();
        Conversation { due_us, number, turn: 0, left: self.draws.turns(), pause_us: 0, ids, tail: 0 }
    }

    /// Adds the user's text to the context; `None` if the prompt gets too long.
    fn speak(&mut self, conversation: &mut Conversation) -> Option<TurnShape> {
        let GenerateOptions { block_size, max_input_tokens, .. } = self.options;
        let room = u64::from(max_input_tokens).saturating_sub(conversation.tokens(block_size));
        let text = self.draws.user_tokens();
        // The first text is cut, so that every conversation has a turn.
        let text = if conversation.turn == 0 { text.min(room) } else { text };
        if text > room {
            return None;
        }
        conversation.grow(text, block_size, &mut self.next_id);
        let tail_id = (conversation.tail > 0).then(|| take_id(&mut self.next_id));
        let output_tokens = self.draws.output_tokens(&self.options);
        Some(TurnShape { input_tokens: conversation.tokens(block_size), output_tokens, tail_id })
    }

    /// Adds the output to the context and lets the conversation wait for its next turn.
    fn proceed(&mut self, mut conversation: Conversation, turn: TurnShape) {
        conversation.left -= 1;
        conversation.turn += 1;
        if conversation.left == 0 {
            return;
        }
        conversation.grow(turn.output_tokens, self.options.block_size, &mut self.next_id);
        conversation.pause_us = self.draws.pause_us(&self.options);
        if self.options.loop_kind == LoopKind::Open {
            conversation.due_us += conversation.pause_us + (turn.output_tokens as f64 * TOKEN_MS * 1e3) as u64;
        }
        self.under_way.push(Reverse(conversation));
    }
}

fn write_row(
    line: &mut Vec<u8>,
    options: &GenerateOptions,
    conversation: &Conversation,
    turn: TurnShape,
) -> io::Result<()> {
    line.push(b'{');
    if options.loop_kind == LoopKind::Closed {
        write!(line, r#""session_id":"c{}","#, conversation.number)?;
    }
    if options.loop_kind == LoopKind::Closed && conversation.turn > 0 {
        write!(line, r#""delay_ms":{},"#, Ms(conversation.pause_us))?;
    } else {
        write!(line, r#""timestamp":{},"#, Ms(conversation.due_us))?;
    }
    let TurnShape { input_tokens, output_tokens, tail_id } = turn;
    write!(line, r#""input_length":{input_tokens},"output_length":{output_tokens},"hash_ids":["#)?;
    for (index, id) in conversation.ids.iter().chain(tail_id.iter()).enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(line, "{comma}{id}")?;
    }
    line.extend_from_slice(b"]}\n");
    Ok(())
}

/// Microseconds, written as milliseconds.
struct Ms(u64);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 1000, self.0 % 1000) {
            (whole, 0) => whole.fmt(f),
            (whole, part) => write!(f, "{whole}.{part:03}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use dynosim_engine::hash::mix;

    use super::*;
    use crate::stats::TraceStats;
    use crate::trace::{Trace, TraceOptions};
    use crate::workload::Workload;

    fn bytes(options: &GenerateOptions) -> Vec<u8> {
        let mut found = Vec::new();
        generate(options, &mut found).unwrap();
        found
    }

    fn digest(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0, |hash, &byte| mix(hash, u64::from(byte)))
    }

    fn stats(options: &GenerateOptions) -> TraceStats {
        let mut trace = Trace::from_bytes("generated", bytes(options), &TraceOptions::default()).unwrap();
        TraceStats::collect(&mut trace, 64).unwrap()
    }

    #[test]
    fn equal_options_give_equal_bytes() {
        let open = GenerateOptions { requests: 1000, ..GenerateOptions::default() };
        let closed = GenerateOptions { loop_kind: LoopKind::Closed, ..open };
        assert_eq!(
            (digest(&bytes(&open)), digest(&bytes(&closed))),
            (10_495_630_521_399_353_590, 9_896_972_010_878_580_791)
        );
        assert_ne!(bytes(&open), bytes(&GenerateOptions { seed: 8, ..open }));
    }

    #[test]
    fn rows_of_an_open_loop_are_in_time_order() {
        let options = GenerateOptions::default();
        let mut trace = Trace::from_bytes("generated", bytes(&options), &TraceOptions::default()).unwrap();
        let mut hashes = Vec::new();
        for row in 0..options.requests {
            assert_eq!(trace.take(&mut hashes).unwrap().map(|turn| turn.row), Some(row));
        }
    }

    #[test]
    fn an_open_loop_is_alike_what_was_asked_for() {
        let options = GenerateOptions::default();
        let found = stats(&options);
        assert_eq!((found.requests, found.sessions), (10_000, 10_000));
        assert!((0.3..0.95).contains(&found.reuse_ratio), "{found:?}");
        assert!(found.input_tokens.max <= f64::from(options.max_input_tokens), "{found:?}");
        assert!((100.0..180.0 * 2.0).contains(&found.output_tokens.p50), "{found:?}");
        let rate = found.mean_rate_rps.unwrap();
        assert!((12.0..26.0).contains(&rate), "{found:?}");
    }

    #[test]
    fn a_closed_loop_has_sessions_of_the_mean_length() {
        let found = stats(&GenerateOptions { loop_kind: LoopKind::Closed, ..GenerateOptions::default() });
        let turns = found.requests as f64 / found.sessions as f64;
        assert!((2.5..3.2).contains(&turns), "{found:?}");
        let rate = found.mean_rate_rps.unwrap();
        assert!((7.0..9.0).contains(&rate), "{found:?}");
    }

    #[test]
    fn the_smallest_options_still_give_every_row() {
        let tiny = GenerateOptions {
            requests: 50,
            block_size: 1,
            groups: 1,
            zipf: 0.0,
            mean_turns: 1.0,
            max_input_tokens: 1,
            max_output_tokens: 1,
            mean_think_ms: 0.0,
            ..GenerateOptions::default()
        };
        assert_eq!(stats(&tiny).requests, 50);
        assert_eq!(stats(&GenerateOptions { block_size: 512, ..tiny }).input_tokens.total, 50);
    }
}
