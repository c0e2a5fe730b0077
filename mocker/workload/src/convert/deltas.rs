//! Between whole prompts and what is new in them.

use std::io::Write;

use dynosim_engine::hash::mix;
use rustc_hash::FxHashMap;

use super::numbers::Numbers;
use super::rows::OutRow;
use super::{ConvertError, ConvertOptions, Converted, Fault, for_each_line};
use crate::delta::{output_ids, push_output};
use crate::error::RowError;
use crate::graph_trace::NamedSource;
use crate::rechunk::Growing;
use crate::row::{Excess, MAX_REQUEST_TOKENS, Row, RowRules};

/// The end of a session's last turn.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// Prompt and output.
    tokens: u32,
    /// Full blocks of the prompt, and a hash of their ids.
    blocks: usize,
    hash: u64,
}

/// `mooncake` to `mooncake-delta`.
pub(super) fn to_delta(
    file: &NamedSource,
    options: &ConvertOptions,
    out: &mut dyn Write,
) -> Result<Converted, ConvertError> {
    let block_size = options.block_size();
    let rules = RowRules { trace_block_size: block_size, excess: Excess::Reject };
    let mut sessions: FxHashMap<String, Before> = FxHashMap::default();
    let mut ids = Vec::new();
    let rows = for_each_line(file, |line| {
        let row = Row::parse(line.bytes, rules, &mut ids)?;
        let output = output_ids(line.bytes)?;
        let mut written = OutRow { output_token_ids: output.as_deref(), ..OutRow::of(&row, &ids) };
        if let Some(session) = row.session_id.as_deref() {
            let blocks = (row.input_tokens / block_size) as usize;
            let tokens = row.input_tokens.saturating_add(row.output_tokens);
            let now = Before { tokens, blocks, hash: hash_of(&ids[..blocks]) };
            if let Some(before) = sessions.insert(session.to_owned(), now) {
                written.input_length = new_tokens(&row, &ids, before)?;
                let new = written.input_length.div_ceil(block_size) as usize;
                written.hash_ids = &ids[ids.len().min(row.input_tokens.div_ceil(block_size) as usize) - new..][..new];
            }
        }
        Ok(written.write(out)?)
    })?;
    Ok(Converted { rows, block_size })
}

/// How much of a prompt is new, if it goes on from the turn before.
fn new_tokens(row: &Row<'_>, ids: &[u64], before: Before) -> Result<u32, RowError> {
    let known = ids.get(..before.blocks).map(hash_of);
    if known != Some(before.hash) {
        let allowed = format!("first the {} of the session's turn before, which cover full blocks", before.blocks);
        return Err(RowError::range("hash_ids", &"another beginning", allowed));
    }
    row.input_tokens.checked_sub(before.tokens).filter(|new| *new > 0).ok_or_else(|| {
        let allowed = format!("more than the {} of the session's turn before, prompt and output", before.tokens);
        RowError::range("input_length", &row.input_tokens, allowed)
    })
}

fn hash_of(ids: &[u64]) -> u64 {
    ids.iter().fold(0, |hash, &id| mix(hash, id))
}

/// A session whose prompts are being put together.
#[derive(Debug)]
struct Session {
    growing: Growing,
    tokens: u64,
    /// Of full blocks that have no number yet.
    hashes: Vec<u64>,
    numbers: Vec<u64>,
    /// Hash and number of the last prompt's last block, if it was not full.
    rest: Option<(u64, u64)>,
}

/// `mooncake-delta` to `mooncake`.
pub(super) fn from_delta(
    file: &NamedSource,
    options: &ConvertOptions,
    out: &mut dyn Write,
) -> Result<Converted, ConvertError> {
    let block_size = options.block_size();
    let rules = RowRules { trace_block_size: block_size, excess: Excess::Reject };
    let mut sessions: FxHashMap<String, Session> = FxHashMap::default();
    let (mut ids, mut numbers, mut number) = (Vec::new(), Numbers::default(), 0);
    let new = || Session {
        growing: Growing::new(block_size),
        tokens: 0,
        hashes: Vec::new(),
        numbers: Vec::new(),
        rest: None,
    };
    let rows = for_each_line(file, |line| {
        let row = Row::parse(line.bytes, rules, &mut ids)?;
        let output = output_ids(line.bytes)?;
        let mut alone = None;
        let session = match row.session_id.as_deref() {
            Some(name) => sessions.entry(name.to_owned()).or_insert_with(new),
            None => alone.insert(new()),
        };
        session.add_prompt(&row, &ids, block_size, &mut numbers)?;
        let input_length = session.tokens as u32;
        let whole = OutRow { input_length, output_token_ids: output.as_deref(), ..OutRow::of(&row, &session.numbers) };
        whole.write(out)?;
        session.add_output(&row, output.as_deref(), number);
        number += 1;
        Ok::<(), Fault>(())
    })?;
    Ok(Converted { rows, block_size })
}

impl Session {
    /// Appends what is new; `numbers` are then those of all blocks of the prompt.
    fn add_prompt(&mut self, row: &Row<'_>, ids: &[u64], block: u32, numbers: &mut Numbers) -> Result<(), RowError> {
        let before = self.tokens;
        self.growing.push_ids(ids, block, u64::from(row.input_tokens), &mut self.hashes);
        self.tokens += u64::from(row.input_tokens);
        if self.tokens + u64::from(row.output_tokens) > MAX_REQUEST_TOKENS {
            let allowed =
                format!("up to {MAX_REQUEST_TOKENS} tokens with the {before} of the session so far and the output");
            return Err(RowError::range("input_length", &row.input_tokens, allowed));
        }
        if self.rest.is_some() {
            self.numbers.pop();
        }
        let mut start = self.rest.take();
        for hash in self.hashes.drain(..) {
            self.numbers.push(numbers.going_on(hash, start.take()));
        }
        self.rest = self.growing.rest().map(|hash| (hash, numbers.going_on(hash, start)));
        self.numbers.extend(self.rest.map(|(_, number)| number));
        Ok(())
    }

    fn add_output(&mut self, row: &Row<'_>, output: Option<&[u64]>, number: u64) {
        push_output(&mut self.growing, output, row.output_tokens, number, &mut self.hashes);
        self.tokens += u64::from(row.output_tokens);
    }
}
