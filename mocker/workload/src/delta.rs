//! `mooncake-delta`: a later turn's row holds only what is new. Its prompt is all that was there before, what the model
//! answered, and then the new part.
//!
//! What the model will answer is planned: tokens that the row tells, or tokens that nothing else has.

use dynosim_engine::hash::mix;
use rustc_hash::FxHashMap;

use crate::error::RowError;
use crate::rechunk::Growing;
use crate::values::{ids, members};
use crate::workload::{Ending, Turn};

/// Sets tokens of answers apart from all others.
const PLANNED: u64 = u64::from_be_bytes(*b"planned\0");
const TOLD: u64 = u64::from_be_bytes(*b"told\0\0\0\0");

/// The sessions in flight.
#[derive(Debug)]
pub(crate) struct Delta {
    trace_block_size: u32,
    engine_block_size: u32,
    sessions: FxHashMap<u32, Session>,
}

/// All tokens of a session so far.
#[derive(Debug)]
struct Session {
    whole: Context,
    /// Without the answer to the last turn.
    prompt: Context,
    /// Of the full blocks of `whole`.
    hashes: Vec<u64>,
}

/// How far a session has come.
#[derive(Clone, Copy, Debug)]
struct Context {
    tokens: u32,
    blocks: usize,
    growing: Growing,
}

impl Delta {
    pub(crate) fn new(trace_block_size: u32, engine_block_size: u32) -> Self {
        Self { trace_block_size, engine_block_size, sessions: FxHashMap::default() }
    }

    /// Makes a row's turn the whole one; fills `hashes` for its prompt and its answer.
    pub(crate) fn grow(&mut self, turn: &mut Turn, hash_ids: &[u64], output: Option<&[u64]>, hashes: &mut Vec<u64>) {
        let start = Context { tokens: 0, blocks: 0, growing: Growing::new(self.engine_block_size) };
        let new = || Session { whole: start, prompt: start, hashes: Vec::new() };
        let Session { whole, prompt, hashes: known } = self.sessions.entry(turn.session).or_insert_with(new);
        whole.growing.push_ids(hash_ids, self.trace_block_size, u64::from(turn.input_tokens), known);
        whole.tokens += turn.input_tokens;
        turn.input_tokens = whole.tokens;
        whole.blocks = known.len();
        *prompt = *whole;
        push_output(&mut whole.growing, output, turn.output_tokens, turn.row, known);
        whole.tokens += turn.output_tokens;
        whole.blocks = known.len();
        hashes.extend_from_slice(known);
    }

    /// A turn has ended: without an answer, the session is as it was before it.
    pub(crate) fn ended(&mut self, session: u32, ending: Ending, over: bool) {
        if over {
            self.sessions.remove(&session);
        } else if ending == Ending::Rejected
            && let Some(session) = self.sessions.get_mut(&session)
        {
            session.whole = session.prompt;
            session.hashes.truncate(session.whole.blocks);
        }
    }
}

/// Appends an answer: the tokens told, or tokens that only the answer to this row has.
pub(crate) fn push_output(
    growing: &mut Growing,
    told: Option<&[u64]>,
    output_tokens: u32,
    row: u64,
    hashes: &mut Vec<u64>,
) {
    match told {
        Some(tokens) => tokens.iter().for_each(|&token| growing.push(mix(TOLD, token), 1, hashes)),
        None => growing.push(mix(PLANNED, row), u64::from(output_tokens), hashes),
    }
}

/// The tokens of a row's answer, if it tells them.
pub(crate) fn output_ids(line: &[u8]) -> Result<Option<Vec<u64>>, RowError> {
    const FIELD: &str = "output_token_ids";
    if memchr::memmem::find(line, FIELD.as_bytes()).is_none() {
        return Ok(None);
    }
    let [value] = members(line, [FIELD])?;
    if value.is_null() {
        return Ok(None);
    }
    let mut tokens = Vec::new();
    ids(FIELD, &value, &mut tokens)?;
    Ok(Some(tokens))
}
