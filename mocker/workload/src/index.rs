//! What is kept of a trace that cannot simply be read from front to back.
//!
//! Per row: where it is, when it is due and which row follows in its session (20 bytes); per session its first row
//! and its name (8 bytes and the name).

use std::borrow::Cow;

use dynosim_engine::Nanos;
use dynosim_engine::hash::mix;
use rustc_hash::FxHashMap;

use crate::decode::Scale;
use crate::error::RowError;
use crate::names::name_hash;
use crate::row::{MAX_REQUEST_TOKENS, Row};

/// Says that no row follows, or that a session has no name.
const NONE: u32 = u32::MAX;

/// When first turns arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// At their timestamps, which every first turn must have; the earliest is the start of the run.
    #[default]
    Timestamps,
    /// In the order of the file, all at the start; for drivers that admit them by concurrency.
    InOrder,
}

/// The finished index.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Offset of each row's line, and the end of the last.
    offsets: Vec<u64>,
    /// Arrival of first turns, pause before later ones.
    times: Vec<Nanos>,
    /// The next turn of the same session.
    next: Vec<u32>,
    /// Sessions in the order in which they arrive.
    sessions: Vec<Session>,
    /// Names of sessions: two bytes of length, text.
    names: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    first_row: u32,
    /// Where its name begins.
    name: u32,
}

impl Index {
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The first row of a session and its arrival.
    pub(crate) fn first(&self, session: u32) -> Option<(u32, Nanos)> {
        let row = self.sessions.get(session as usize)?.first_row;
        Some((row, self.times[row as usize]))
    }

    /// The row that follows in the session of `row`, and the pause before it.
    pub(crate) fn after(&self, row: u32) -> Option<(u32, Nanos)> {
        let next = *self.next.get(row as usize)?;
        (next != NONE).then(|| (next, self.times[next as usize]))
    }

    /// The bytes that hold a row's line, and perhaps blank lines after it.
    pub(crate) fn place(&self, row: u32) -> std::ops::Range<u64> {
        self.offsets[row as usize]..self.offsets[row as usize + 1]
    }

    /// The session's name, or one made from its row.
    pub(crate) fn name(&self, session: u32) -> Cow<'_, str> {
        let Session { first_row, name } = self.sessions[session as usize];
        if name == NONE { unnamed(u64::from(first_row)).into() } else { Cow::Borrowed(text_at(&self.names, name)) }
    }
}

/// The name of a session that has none: an independent request, counted from 1.
pub(crate) fn unnamed(row: u64) -> String {
    format!("request_{}", row + 1)
}

fn text_at(names: &[u8], start: u32) -> &str {
    let start = start as usize;
    let length = usize::from(u16::from_le_bytes([names[start], names[start + 1]]));
    std::str::from_utf8(&names[start + 2..start + 2 + length]).unwrap_or_default()
}

/// Collects an index row by row.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    index: Index,
    /// Of sessions with a name, in the order of the file.
    tails: Vec<Tail>,
    /// Places in `tails` by the hash of the name.
    by_name: FxHashMap<u64, u32>,
    /// Of each session with a name, its tokens so far; kept if prompts hold only what is new.
    tokens: Option<Vec<u64>>,
}

/// The end of a session so far.
#[derive(Clone, Copy, Debug)]
struct Tail {
    row: u32,
    /// Where its name begins.
    name: u32,
    /// The last timestamp given; [`Nanos::MAX`] if none was.
    timestamp: Nanos,
}

/// Longest name of a session, in bytes.
const NAME_MAX: usize = u16::MAX as usize;

impl IndexBuilder {
    /// For prompts that hold only what is new since the session's turn before.
    pub(crate) fn for_deltas() -> Self {
        Self { tokens: Some(Vec::new()), ..Self::default() }
    }

    /// Adds a row to its session's tokens.
    fn grow(&mut self, tail: u32, row: &Row<'_>) -> Result<(), RowError> {
        let Some(tokens) = &mut self.tokens else { return Ok(()) };
        if tail as usize == tokens.len() {
            tokens.push(0);
        }
        let tokens = &mut tokens[tail as usize];
        let before = std::mem::replace(tokens, *tokens + u64::from(row.input_tokens) + u64::from(row.output_tokens));
        if *tokens <= MAX_REQUEST_TOKENS {
            return Ok(());
        }
        let allowed =
            format!("up to {MAX_REQUEST_TOKENS} tokens with the {before} of the session so far and the output");
        Err(RowError::range("input_length", &row.input_tokens, allowed))
    }

    /// Adds the next row, whose line begins at `offset`.
    pub(crate) fn push(&mut self, row: &Row<'_>, offset: u64, scale: Scale) -> Result<Place, RowError> {
        let number = self.index.times.len() as u32;
        let Some(tail) = self.continued_by(row)? else {
            self.append(offset, row.timestamp.unwrap_or_default());
            return Ok(Place::First);
        };
        self.grow(tail, row)?;
        let tail = &mut self.tails[tail as usize];
        let before = std::mem::replace(&mut tail.row, number);
        let previous = Some(tail.timestamp).filter(|&time| time < Nanos::MAX);
        tail.timestamp = row.timestamp.unwrap_or(tail.timestamp);
        let delay = previous_gap(row, previous)?;
        self.append(offset, scale.apply(delay));
        self.index.next[before as usize] = number;
        Ok(Place::Later)
    }

    fn append(&mut self, offset: u64, time: Nanos) {
        self.index.offsets.push(offset);
        self.index.times.push(time);
        self.index.next.push(NONE);
    }

    /// The place in `tails` of the session that the row continues; begins one if it does not.
    fn continued_by(&mut self, row: &Row<'_>) -> Result<Option<u32>, RowError> {
        let first_row = self.index.times.len() as u32;
        let Some(name) = row.session_id.as_deref() else {
            self.index.sessions.push(Session { first_row, name: NONE });
            return Ok(None);
        };
        let mut key = name_hash(name);
        while let Some(&tail) = self.by_name.get(&key) {
            if text_at(&self.index.names, self.tails[tail as usize].name) == name {
                return Ok(Some(tail));
            }
            key = mix(key, 1);
        }
        let start = self.add_name(name)?;
        self.by_name.insert(key, self.tails.len() as u32);
        self.index.sessions.push(Session { first_row, name: start });
        self.grow(self.tails.len() as u32, row)?;
        self.tails.push(Tail { row: first_row, name: start, timestamp: row.timestamp.unwrap_or(Nanos::MAX) });
        Ok(None)
    }

    /// Stores a name and tells where it begins.
    fn add_name(&mut self, name: &str) -> Result<u32, RowError> {
        if name.len() > NAME_MAX {
            let value = format!("a name of {} bytes", name.len());
            return Err(RowError::range("session_id", &value, format!("up to {NAME_MAX} bytes")));
        }
        let names = &mut self.index.names;
        let start = u32::try_from(names.len()).ok().filter(|&start| start != NONE);
        let start = start.ok_or_else(|| RowError::range("session_id", &"4 GiB of names", "less"))?;
        names.extend_from_slice(&(name.len() as u16).to_le_bytes());
        names.extend_from_slice(name.as_bytes());
        Ok(start)
    }

    /// Ends the index. `start` is the earliest timestamp of a first turn, `end` the length of the file.
    pub(crate) fn finish(self, arrivals: Arrivals, start: Nanos, end: u64, scale: Scale) -> Index {
        let mut index = self.index;
        index.offsets.push(end);
        for session in &index.sessions {
            let time = &mut index.times[session.first_row as usize];
            *time = match arrivals {
                Arrivals::Timestamps => scale.apply(time.since(start)),
                Arrivals::InOrder => Nanos::ZERO,
            };
        }
        let times = &index.times;
        index.sessions.sort_unstable_by_key(|session| (times[session.first_row as usize], session.first_row));
        if index.sessions.len() == index.times.len() {
            index.next = Vec::new();
        }
        index.offsets.shrink_to_fit();
        index.times.shrink_to_fit();
        index.next.shrink_to_fit();
        index.sessions.shrink_to_fit();
        index
    }
}

/// Where a row stands in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It begins the session.
    First,
    /// It follows another turn.
    Later,
}

/// The pause before a later turn: as given, else the gap between the timestamps, else none.
pub(crate) fn previous_gap(row: &Row<'_>, previous: Option<Nanos>) -> Result<Nanos, RowError> {
    match (row.delay, row.timestamp, previous) {
        (Some(delay), ..) => Ok(delay),
        (None, Some(now), Some(before)) if now < before => {
            let allowed = format!("{} or more, the timestamp of the session's turn before", before.as_ms());
            Err(RowError::range("timestamp", &&now.as_ms(), allowed))
        }
        (None, Some(now), Some(before)) => Ok(now - before),
        _ => Ok(Nanos::ZERO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_takes_20_bytes_per_row_and_8_for_itself() {
        assert_eq!((size_of::<Session>(), size_of::<Tail>()), (8, 16));
        assert_eq!(size_of::<(u64, Nanos)>() + size_of::<u32>(), 20);
    }

    #[test]
    fn names_of_any_length_are_found_again() {
        let mut builder = IndexBuilder::default();
        let names = ["", "a", "exactly8", "longer than eight bytes", "ü"];
        for round in 0..2 {
            for name in names {
                let row = Row { session_id: Some(name.into()), ..Row::default() };
                let place = builder.push(&row, 0, Scale { speedup: 1.0 }).unwrap();
                assert_eq!(place == Place::First, round == 0, "{name}");
            }
        }
        let index = builder.finish(Arrivals::InOrder, Nanos::ZERO, 0, Scale { speedup: 1.0 });
        for (session, name) in names.iter().enumerate() {
            assert_eq!(index.name(session as u32), *name);
            assert_eq!(index.after(session as u32), Some((session as u32 + 5, Nanos::ZERO)));
        }
    }
}
