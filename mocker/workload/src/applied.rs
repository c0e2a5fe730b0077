//! `applied_compute_agentic`: one agent session per line, lengths only.
//!
//! A session of n tool calls is n + 1 requests. Each prompt is the one before, the assistant's answer to it and what the
//! tool said. Lines have no times, so sessions are sent at a fixed concurrency, in the order of the file.

use std::borrow::Cow;

use dynosim_engine::Nanos;
use dynosim_engine::hash::mix;
use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::decode::{Scale, line_error, row_error};
use crate::error::{RowError, WorkloadError};
use crate::graph_trace::NamedSource;
use crate::lines::Lines;
use crate::mooncake::Scalar;
use crate::open::OpenOptions;
use crate::prompt::Kind;
use crate::rechunk::{BlockSizes, rechunk};
use crate::row::{DEFAULT_TRACE_BLOCK_SIZE, MAX_REQUEST_TOKENS, MAX_TIME_MS};
use crate::scan::MAX_ROWS;
use crate::source::Stream;
use crate::synthetic::SharedPrefix;
use crate::values::{list, members, tokens};
use crate::workload::{Turn, Workload};

/// One line: what happens in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) input_tokens: u32,
    /// Of each request.
    pub(crate) outputs: Vec<u32>,
    /// What each tool said, tokens.
    pub(crate) tools: Vec<u32>,
    /// How long each tool took.
    pub(crate) pauses: Vec<Nanos>,
}

impl Session {
    /// Parses a line, without its line break.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, RowError> {
        let [turns, input, outputs, tools, latencies, last] = members(
            line,
            [
                "num_turns",
                "input_prompt_length",
                "assistant_response_length",
                "tool_call_output_length",
                "tool_call_latency",
                "final_assistant_response_length",
            ],
        )?;
        let turns = count("num_turns", &turns)?;
        let input_tokens = tokens("input_prompt_length", &input)?;
        let mut outputs = each("assistant_response_length", &outputs, turns, tokens)?;
        let tools = each("tool_call_output_length", &tools, turns, count)?;
        let pauses = each("tool_call_latency", &latencies, turns, seconds)?;
        outputs.push(tokens("final_assistant_response_length", &last)?);
        let whole = [&outputs[..], &tools[..]].concat().into_iter().map(u64::from).sum::<u64>();
        if whole + u64::from(input_tokens) > MAX_REQUEST_TOKENS {
            let value = format!("{} tokens in all", whole + u64::from(input_tokens));
            return Err(RowError::range("input_prompt_length", &value, format!("up to {MAX_REQUEST_TOKENS}")));
        }
        Ok(Self { input_tokens, outputs, tools, pauses })
    }

    /// The prompt of a turn, tokens.
    pub(crate) fn prompt(&self, turn: usize) -> u32 {
        self.input_tokens + self.outputs[..turn].iter().sum::<u32>() + self.tools[..turn].iter().sum::<u32>()
    }

    /// Its blocks: some of the first prompt are those of a group, the others its own.
    pub(crate) fn hash_ids(&self, number: u32, turn: usize, block: u32, shared: SharedPrefix, ids: &mut Vec<u64>) {
        ids.clear();
        let common = shared.blocks(self.input_tokens.div_ceil(block));
        let group = if shared.groups == 0 { 0 } else { number % shared.groups };
        let id = |kind: Kind, owner: u32, index: u32| mix(mix(kind as u64, u64::from(owner)), u64::from(index));
        ids.extend((0..self.prompt(turn).div_ceil(block)).map(|index| {
            if index < common { id(Kind::Shared, group, index) } else { id(Kind::Unique, number, index) }
        }));
    }
}

fn each<T>(
    field: &'static str,
    value: &Value,
    turns: u32,
    judge: impl Fn(&'static str, &Value) -> Result<T, RowError>,
) -> Result<Vec<T>, RowError> {
    let list = list(field, value, "a list of numbers, one per turn")?;
    if list.len() != turns as usize {
        return Err(RowError::range(field, &format!("{} numbers", list.len()), format!("{turns}, the num_turns")));
    }
    list.iter().map(|value| judge(field, value)).collect()
}

fn count(field: &'static str, value: &Value) -> Result<u32, RowError> {
    const ALLOWED: &str = "an integer, 0 or more";
    match Scalar::from(value) {
        Scalar::Null => Err(RowError::Missing { field, allowed: ALLOWED }),
        Scalar::Unsigned(0) => Ok(0),
        Scalar::Unsigned(_) => tokens(field, value),
        number @ Scalar::Negative(_) => Err(RowError::range(field, &number, "0 or more")),
        other => Err(RowError::WrongType { field, value: other.to_string(), allowed: ALLOWED }),
    }
}

fn seconds(field: &'static str, value: &Value) -> Result<Nanos, RowError> {
    let most = MAX_TIME_MS / 1e3;
    match value.as_f64() {
        Some(seconds) if (0.0..=most).contains(&seconds) => Ok(Nanos::from_secs(seconds)),
        Some(seconds) => Err(RowError::range(field, &seconds, format!("0 to {most} s"))),
        None => {
            let value = Scalar::from(value).to_string();
            Err(RowError::WrongType { field, value, allowed: "a number of seconds, 0 or more" })
        }
    }
}

/// A session in flight.
#[derive(Debug)]
struct Active {
    session: Session,
    first_row: u64,
    turn: u32,
    /// The turn has been announced and not been taken yet.
    due: bool,
}

/// An opened trace. Every line was checked; they are read again as their sessions begin.
#[derive(Debug)]
pub(crate) struct AppliedTrace {
    file: String,
    lines: Lines<Stream>,
    sizes: BlockSizes,
    shared: SharedPrefix,
    scale: Scale,
    sessions: u32,
    requests: u64,
    taken: u32,
    /// Requests of the sessions taken.
    rows: u64,
    active: FxHashMap<u32, Active>,
    hash_ids: Vec<u64>,
}

impl AppliedTrace {
    pub(crate) fn open(file: NamedSource, options: &OpenOptions) -> Result<Self, WorkloadError> {
        let NamedSource { name, source } = file;
        let mut lines = Lines::new(source.stream());
        let (mut sessions, mut requests) = (0u64, 0u64);
        while let Some(line) = lines.next().map_err(|error| line_error(&name, error))? {
            let session = Session::parse(line.bytes).map_err(|error| row_error(&name, line.number, error))?;
            sessions += 1;
            requests += session.outputs.len() as u64;
        }
        match sessions {
            0 => return Err(WorkloadError::Empty { file: name }),
            1..=MAX_ROWS => {}
            _ => return Err(WorkloadError::TooManyRows { file: name, limit: MAX_ROWS }),
        }
        let trace = options.trace_block_size.unwrap_or(DEFAULT_TRACE_BLOCK_SIZE);
        Ok(Self {
            file: name,
            lines: Lines::new(source.stream()),
            sizes: BlockSizes { trace, engine: options.engine_block_size },
            shared: options.shared_prefix,
            scale: options.scale(),
            sessions: sessions as u32,
            requests,
            taken: 0,
            rows: 0,
            active: FxHashMap::default(),
            hash_ids: Vec::new(),
        })
    }

    /// The turn at which a session is.
    fn turn(&mut self, number: u32, hashes: &mut Vec<u64>) -> Option<Turn> {
        let Active { session, first_row, turn, .. } = self.active.get(&number)?;
        let place = *turn as usize;
        session.hash_ids(number, place, self.sizes.trace, self.shared, &mut self.hash_ids);
        let input_tokens = session.prompt(place);
        rechunk(&self.hash_ids, input_tokens, self.sizes, hashes);
        let output_tokens = session.outputs[place];
        let row = first_row + u64::from(*turn);
        Some(Turn { session: number, turn: *turn, row, input_tokens, output_tokens, ..Turn::default() })
    }
}

impl Workload for AppliedTrace {
    fn peek(&mut self) -> Result<Option<Nanos>, WorkloadError> {
        Ok((self.taken < self.sessions).then_some(Nanos::ZERO))
    }

    fn take(&mut self, hashes: &mut Vec<u64>) -> Result<Option<Turn>, WorkloadError> {
        hashes.clear();
        if self.taken == self.sessions {
            return Ok(None);
        }
        let line = self.lines.next().map_err(|error| line_error(&self.file, error))?;
        let changed = || WorkloadError::Changed { file: self.file.clone(), row: u64::from(self.taken) + 1 };
        let session = line.and_then(|line| Session::parse(line.bytes).ok()).ok_or_else(changed)?;
        let (number, first_row) = (self.taken, self.rows);
        self.taken += 1;
        self.rows += session.outputs.len() as u64;
        self.active.insert(number, Active { session, first_row, turn: 0, due: false });
        Ok(self.turn(number, hashes))
    }

    fn next_delay(&mut self, turn: &Turn) -> Option<Nanos> {
        let active = self.active.get_mut(&turn.session)?;
        let pause = active.session.pauses.get(turn.turn as usize).copied();
        match pause {
            Some(_) => (active.turn, active.due) = (turn.turn + 1, true),
            None => drop(self.active.remove(&turn.session)),
        }
        pause.map(|pause| self.scale.apply(pause))
    }

    fn take_next(&mut self, session: u32, hashes: &mut Vec<u64>) -> Result<Turn, WorkloadError> {
        hashes.clear();
        let due = self.active.get_mut(&session).is_some_and(|active| std::mem::take(&mut active.due));
        let turn = if due { self.turn(session, hashes) } else { None };
        turn.ok_or(WorkloadError::NoTurn { session })
    }

    fn total_requests(&self) -> u64 {
        self.requests
    }

    fn total_sessions(&self) -> u64 {
        u64::from(self.sessions)
    }

    fn session_name(&self, session: u32) -> Cow<'_, str> {
        format!("session_{}", u64::from(session) + 1).into()
    }
}
