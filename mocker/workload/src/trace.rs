//! A trace file as a source of requests.
//!
//! Opening it reads and checks every row once. Independent rows in time order are then streamed a second time; of all
//! other traces an index is kept and rows are read again from their place when they are due. Either way memory is
//! bounded by the index and what is in flight.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use dynosim_engine::Nanos;
use rustc_hash::FxHashMap;

use crate::decode::{Decoder, Scale, line_error};
use crate::delta::{Delta, output_ids};
use crate::error::{OptionError, WorkloadError};
use crate::format::TraceFormat;
use crate::index::{Arrivals, Index, unnamed};
use crate::lines::{Lines, MAX_LINE_BYTES};
use crate::row::{MAX_REQUEST_TOKENS, RowRules};
use crate::scan::{Scan, Summary};
use crate::source::{Source, Stream};
use crate::workload::{Ending, Part, Turn, Workload};

/// How to read a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceOptions {
    /// The format of the file.
    pub format: TraceFormat,
    /// Block size of the trace and what to do with prompts beyond their hash ids.
    pub rules: RowRules,
    /// Tokens in a block of the engine; 1 or more.
    pub engine_block_size: u32,
    /// When first turns arrive.
    pub arrivals: Arrivals,
    /// Divides all gaps and delays; finite and above 0.
    pub arrival_speedup_ratio: f64,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            format: TraceFormat::default(),
            rules: RowRules::default(),
            engine_block_size: 64,
            arrivals: Arrivals::default(),
            arrival_speedup_ratio: 1.0,
        }
    }
}

/// Fails unless `size` can be a block size.
pub(crate) fn check_block_size(name: &'static str, size: u32) -> Result<(), OptionError> {
    OptionError::unless((1..=MAX_REQUEST_TOKENS).contains(&u64::from(size)), name, &size, "1 to 67108864")
}

impl TraceOptions {
    fn check(&self) -> Result<(), WorkloadError> {
        let format = self.format;
        if !matches!(format, TraceFormat::Mooncake | TraceFormat::MooncakeDelta | TraceFormat::Azure) {
            return Err(WorkloadError::Unfit { format, why: "is no list of sessions; `open` reads it" });
        }
        check_block_size("trace_block_size", self.rules.trace_block_size)?;
        check_block_size("block_size", self.engine_block_size)?;
        let ratio = self.arrival_speedup_ratio;
        let allowed = "finite and above 0";
        Ok(OptionError::unless(ratio.is_finite() && ratio > 0.0, "arrival_speedup_ratio", &ratio, allowed)?)
    }
}

/// An opened trace.
#[derive(Debug)]
pub struct Trace {
    file: String,
    source: Source,
    decoder: Decoder,
    scale: Scale,
    arrivals: Arrivals,
    rows: u64,
    clamped: u64,
    reader: Reader,
    /// If later turns hold only what is new.
    delta: Option<Delta>,
}

#[derive(Debug)]
enum Reader {
    Front(Front),
    Seek(Seek),
}

/// Reads on from row to row.
#[derive(Debug)]
struct Front {
    lines: Lines<Stream>,
    /// The earliest timestamp.
    start: Nanos,
    /// Rows read, those of other parts included.
    read: u64,
    part: Part,
    /// The row read last, not taken yet. Its prompt is in the decoder.
    waiting: Option<(Nanos, Turn)>,
}

/// Reads rows from where the index says they are.
#[derive(Debug)]
struct Seek {
    index: Index,
    /// Sessions taken.
    taken: u32,
    /// Row and number of the turn that each session in its pause continues with.
    due: FxHashMap<u32, (u32, u32)>,
    buffer: Vec<u8>,
}

impl Trace {
    /// Opens a file, or the standard input for `-`, and checks every row.
    pub fn open(path: &Path, options: &TraceOptions) -> Result<Self, WorkloadError> {
        options.check()?;
        let file = path.display().to_string();
        let source = Source::open(path).map_err(|source| WorkloadError::Io { file: file.clone(), source })?;
        Self::from_source(file, source, options)
    }

    /// Takes a trace from memory and checks every row; `name` stands for the file in messages.
    pub fn from_bytes(name: &str, bytes: Vec<u8>, options: &TraceOptions) -> Result<Self, WorkloadError> {
        options.check()?;
        Self::from_source(name.to_owned(), Source::Memory(bytes.into()), options)
    }

    pub(crate) fn from_source(file: String, source: Source, options: &TraceOptions) -> Result<Self, WorkloadError> {
        let mut decoder = Decoder::new(options.format, options.rules, options.engine_block_size);
        let (arrivals, scale) = (options.arrivals, Scale { speedup: options.arrival_speedup_ratio });
        let summary = Scan { file: &file, source: &source, arrivals, scale }.run(&mut decoder)?;
        let Summary { rows, clamped, start, index } = summary;
        let reader = match index {
            None => {
                let mut lines = Lines::new(source.stream());
                decoder.skip_header(&file, &mut lines)?;
                Reader::Front(Front { lines, start, read: 0, part: Part::WHOLE, waiting: None })
            }
            Some(index) => Reader::Seek(Seek { index, taken: 0, due: FxHashMap::default(), buffer: Vec::new() }),
        };
        let delta = decoder.deltas().then(|| Delta::new(options.rules.trace_block_size, options.engine_block_size));
        Ok(Self { file, source, decoder, scale, arrivals, rows, clamped, reader, delta })
    }

    /// Number of prompts that were cut to what their hash ids cover.
    pub fn clamped_rows(&self) -> u64 {
        self.clamped
    }

    fn changed(&self, row: u64) -> WorkloadError {
        WorkloadError::Changed { file: self.file.clone(), row: row + 1 }
    }

    /// Reads the next row of a trace that is read from front to back, unless one is waiting.
    fn look_ahead(&mut self) -> Result<Option<Nanos>, WorkloadError> {
        let Reader::Front(front) = &mut self.reader else { return Ok(None) };
        if let Some((time, _)) = front.waiting {
            return Ok(Some(time));
        }
        while front.read % u64::from(front.part.of) != u64::from(front.part.number) && front.read < self.rows {
            front.lines.next().map_err(|error| line_error(&self.file, error))?;
            front.read += 1;
        }
        if front.read == self.rows {
            return Ok(None);
        }
        let number = front.read;
        let decoded = match front.lines.next().map_err(|error| line_error(&self.file, error))? {
            None => None,
            Some(line) => self.decoder.decode(line.bytes).ok(),
        };
        let Some(row) = decoded else { return Err(self.changed(number)) };
        let time = match (self.arrivals, row.timestamp) {
            (Arrivals::InOrder, _) => Nanos::ZERO,
            (Arrivals::Timestamps, Some(timestamp)) => self.scale.apply(timestamp.since(front.start)),
            (Arrivals::Timestamps, None) => return Err(self.changed(number)),
        };
        let turn = self.decoder.turn(&row, number as u32);
        front.read += 1;
        front.waiting = Some((time, Turn { session: number as u32, ..turn }));
        Ok(Some(time))
    }

    /// Reads a row from its place.
    fn seek(&mut self, session: u32, row: u32, turn: u32, hashes: &mut Vec<u64>) -> Result<Turn, WorkloadError> {
        let Reader::Seek(seek) = &mut self.reader else { return Err(WorkloadError::NoTurn { session }) };
        let place = seek.index.place(row);
        let length = (place.end - place.start).min(MAX_LINE_BYTES as u64 + 1) as usize;
        seek.buffer.resize(length, 0);
        if let Err(source) = self.source.read_at(place.start, &mut seek.buffer) {
            return Err(match source.kind() {
                io::ErrorKind::UnexpectedEof => self.changed(u64::from(row)),
                _ => WorkloadError::Io { file: self.file.clone(), source },
            });
        }
        let end = memchr::memchr(b'\n', &seek.buffer).unwrap_or(length);
        let Ok(parsed) = self.decoder.decode(&seek.buffer[..end]) else { return Err(self.changed(u64::from(row))) };
        let mut found = Turn { session, turn, ..self.decoder.turn(&parsed, row) };
        match &mut self.delta {
            None => self.decoder.append_hashes(&found, hashes),
            Some(delta) => {
                let Ok(output) = output_ids(&seek.buffer[..end]) else { return Err(self.changed(u64::from(row))) };
                delta.grow(&mut found, self.decoder.hash_ids(), output.as_deref(), hashes);
            }
        }
        Ok(found)
    }
}

impl Workload for Trace {
    fn peek(&mut self) -> Result<Option<Nanos>, WorkloadError> {
        match &self.reader {
            Reader::Front(_) => self.look_ahead(),
            Reader::Seek(seek) => Ok(seek.index.first(seek.taken).map(|(_, time)| time)),
        }
    }

    fn take(&mut self, hashes: &mut Vec<u64>) -> Result<Option<Turn>, WorkloadError> {
        hashes.clear();
        self.look_ahead()?;
        match &mut self.reader {
            Reader::Front(front) => {
                let Some((_, turn)) = front.waiting.take() else { return Ok(None) };
                self.decoder.append_hashes(&turn, hashes);
                Ok(Some(turn))
            }
            Reader::Seek(seek) => {
                let session = seek.taken;
                let Some((row, _)) = seek.index.first(session) else { return Ok(None) };
                seek.taken += 1;
                self.seek(session, row, 0, hashes).map(Some)
            }
        }
    }

    fn next_delay(&mut self, turn: &Turn) -> Option<Nanos> {
        let Reader::Seek(seek) = &mut self.reader else { return None };
        let (next, delay) = seek.index.after(turn.row as u32)?;
        seek.due.insert(turn.session, (next, turn.turn + 1));
        Some(delay)
    }

    fn ended(&mut self, turn: &Turn, _: Nanos, ending: Ending) -> Option<Nanos> {
        let delay = self.next_delay(turn);
        if let Some(delta) = &mut self.delta {
            delta.ended(turn.session, ending, delay.is_none());
        }
        delay
    }

    fn take_next(&mut self, session: u32, hashes: &mut Vec<u64>) -> Result<Turn, WorkloadError> {
        hashes.clear();
        let Reader::Seek(seek) = &mut self.reader else { return Err(WorkloadError::NoTurn { session }) };
        let (row, turn) = seek.due.remove(&session).ok_or(WorkloadError::NoTurn { session })?;
        self.seek(session, row, turn, hashes)
    }

    fn part(&self, part: Part) -> Option<Box<dyn Workload + Send>> {
        let Reader::Front(Front { start, .. }) = self.reader else { return None };
        let mut lines = Lines::new(self.source.stream());
        let decoder = self.decoder.for_another_reader();
        // It has been skipped once without an error.
        decoder.skip_header(&self.file, &mut lines).ok()?;
        let reader = Reader::Front(Front { lines, start, read: 0, part, waiting: None });
        let (file, source) = (self.file.clone(), self.source.clone());
        Some(Box::new(Self { file, source, decoder, reader, delta: None, ..*self }))
    }

    fn total_requests(&self) -> u64 {
        match &self.reader {
            Reader::Front(front) => {
                (self.rows + u64::from(front.part.of - 1 - front.part.number)) / u64::from(front.part.of)
            }
            Reader::Seek(_) => self.rows,
        }
    }

    fn total_sessions(&self) -> u64 {
        match &self.reader {
            Reader::Front(_) => self.total_requests(),
            Reader::Seek(seek) => seek.index.sessions() as u64,
        }
    }

    fn session_name(&self, session: u32) -> Cow<'_, str> {
        match &self.reader {
            Reader::Front(_) => unnamed(u64::from(session)).into(),
            Reader::Seek(seek) => seek.index.name(session),
        }
    }

    fn policy_class_name(&self, class: u32) -> Option<&str> {
        self.decoder.class_name(class)
    }
}
