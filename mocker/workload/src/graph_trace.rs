//! A trace whose requests wait for each other.
//!
//! Kept of it: the graph, where each row is, and the sessions' names. Rows are read again when they are sent.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use dynosim_engine::Nanos;
use dynosim_engine::hash::mix;

use crate::agentic::row::{AgenticRow, Form};
use crate::dynamo::record::Request;
use crate::error::{RowError, WorkloadError};
use crate::format::TraceFormat;
use crate::names::{Names, name_hash};
use crate::progress::Progress;
use crate::rechunk::{BlockSizes, rechunk};
use crate::row::Row;
use crate::source::Source;
use crate::workload::{Ending, Turn, Workload};

/// Where a row is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) file: u32,
    pub(crate) length: u32,
    pub(crate) offset: u64,
}

/// A file and its name in messages.
#[derive(Debug)]
pub(crate) struct NamedSource {
    pub(crate) name: String,
    pub(crate) source: Source,
}

impl NamedSource {
    /// Opens a file, or the standard input for `-`. Only Dynamo compresses its traces.
    pub(crate) fn open(path: &Path, format: TraceFormat) -> Result<Self, WorkloadError> {
        let name = path.display().to_string();
        let source = Source::open(path).map_err(|source| WorkloadError::Io { file: name.clone(), source })?;
        if format != TraceFormat::Dynamo {
            return Ok(Self { name, source });
        }
        match source.inflated() {
            Ok(source) => Ok(Self { name, source }),
            Err(source) => Err(WorkloadError::Inflate { file: name, source }),
        }
    }

    /// Reads a row again.
    pub(crate) fn read_at(&self, place: Place, row: u64, buffer: &mut Vec<u8>) -> Result<(), WorkloadError> {
        buffer.resize(place.length as usize, 0);
        self.source.read_at(place.offset, buffer).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => self.changed(row),
            _ => WorkloadError::Io { file: self.name.clone(), source },
        })
    }

    pub(crate) fn changed(&self, row: u64) -> WorkloadError {
        WorkloadError::Changed { file: self.name.clone(), row: row + 1 }
    }
}

/// What the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    Agentic(Form),
    Dynamo,
}

/// Between the scope and the name of a session.
const SCOPE_END: char = '\0';

/// Sessions in the order in which they come up, and how many turns each has.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// Each with its scope before it.
    names: Names,
    turns: Vec<u32>,
}

impl Sessions {
    /// The session of a row, and the number of the turn that the row is. Sessions of other scopes are others.
    pub(crate) fn add(&mut self, scope: &str, name: &str) -> (u32, u32) {
        let session = self.names.number(&format!("{scope}{SCOPE_END}{name}"));
        if session as usize == self.turns.len() {
            self.turns.push(0);
        }
        let turn = &mut self.turns[session as usize];
        *turn += 1;
        (session, *turn - 1)
    }

    fn name(&self, session: u32) -> &str {
        let name = self.names.name(session).unwrap_or_default();
        name.split_once(SCOPE_END).map_or(name, |(_, name)| name)
    }
}

/// An opened trace of requests that wait for each other.
#[derive(Debug)]
pub(crate) struct GraphTrace {
    pub(crate) files: Vec<NamedSource>,
    pub(crate) rows: Rows,
    pub(crate) sizes: BlockSizes,
    pub(crate) places: Vec<Place>,
    /// Session and turn of each row.
    pub(crate) turns: Vec<(u32, u32)>,
    pub(crate) sessions: Sessions,
    pub(crate) progress: Progress,
    pub(crate) classes: Names,
    pub(crate) buffer: Vec<u8>,
    pub(crate) hash_ids: Vec<u64>,
}

impl GraphTrace {
    /// Whether any request waits for another.
    pub(crate) fn waits(&self) -> bool {
        self.progress.waits()
    }

    /// Reads a row again; its hash ids go to `hash_ids`.
    fn read(&mut self, node: u32) -> Result<Turn, WorkloadError> {
        let place = self.places[node as usize];
        let file = &self.files[place.file as usize];
        let number = u64::from(node);
        file.read_at(place, number, &mut self.buffer)?;
        let (rows, block_size, hash_ids) = (self.rows, self.sizes.trace, &mut self.hash_ids);
        let row = parse(&self.buffer, rows, block_size, hash_ids).map_err(|_| file.changed(number))?;
        let (session, turn) = self.turns[node as usize];
        Ok(Turn {
            session,
            turn,
            row: number,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            priority: row.priority,
            strict_priority: row.strict_priority,
            policy_class: row.policy_class.as_deref().map(|name| self.classes.number(name)),
        })
    }
}

/// Parses a row. Its hash ids are as they are to be compared: those of another play are others.
fn parse<'l>(line: &'l [u8], rows: Rows, block_size: u32, hash_ids: &mut Vec<u64>) -> Result<Row<'l>, RowError> {
    match rows {
        Rows::Agentic(form) => {
            let AgenticRow { row, play_id, .. } = AgenticRow::parse(line, form, block_size, hash_ids)?;
            if let Some(play) = play_id {
                let play = name_hash(&play);
                for id in hash_ids.iter_mut() {
                    *id = mix(play, *id);
                }
            }
            Ok(row)
        }
        Rows::Dynamo => {
            let request = Request::parse(line, hash_ids)?;
            Ok(Row { input_tokens: request.input_tokens, output_tokens: request.output_tokens, ..Row::default() })
        }
    }
}

impl Workload for GraphTrace {
    fn peek(&mut self) -> Result<Option<Nanos>, WorkloadError> {
        Ok(self.progress.next_time())
    }

    fn take(&mut self, hashes: &mut Vec<u64>) -> Result<Option<Turn>, WorkloadError> {
        hashes.clear();
        let Some(node) = self.progress.next() else { return Ok(None) };
        let turn = self.read(node)?;
        rechunk(&self.hash_ids, turn.input_tokens, self.sizes, hashes);
        self.progress.dispatch();
        Ok(Some(turn))
    }

    fn next_delay(&mut self, _: &Turn) -> Option<Nanos> {
        None
    }

    fn ended(&mut self, turn: &Turn, now: Nanos, _: Ending) -> Option<Nanos> {
        self.progress.complete(turn.row as u32, now);
        None
    }

    fn take_next(&mut self, session: u32, _: &mut Vec<u64>) -> Result<Turn, WorkloadError> {
        Err(WorkloadError::NoTurn { session })
    }

    fn total_requests(&self) -> u64 {
        self.progress.requests()
    }

    fn total_sessions(&self) -> u64 {
        self.sessions.names.len() as u64
    }

    fn session_name(&self, session: u32) -> Cow<'_, str> {
        self.sessions.name(session).into()
    }

    fn policy_class_name(&self, class: u32) -> Option<&str> {
        self.classes.name(class)
    }
}
