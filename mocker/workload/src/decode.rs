//! From the bytes of a line to a request, whatever the format.

use dynosim_engine::Nanos;

use crate::azure;
use crate::error::{RowError, WorkloadError};
use crate::format::TraceFormat;
use crate::lines::{LineError, Lines, MAX_LINE_BYTES};
use crate::names::Names;
use crate::prompt::{Kind, ROOT, append_chain};
use crate::rechunk::{BlockSizes, rechunk};
use crate::row::{Row, RowRules};
use crate::source::Stream;
use crate::workload::Turn;

/// Parses rows of one format into a reused list of hash ids.
#[derive(Debug)]
pub(crate) struct Decoder {
    format: TraceFormat,
    rules: RowRules,
    engine_block_size: u32,
    hash_ids: Vec<u64>,
    classes: Names,
}

impl Decoder {
    pub(crate) fn new(format: TraceFormat, rules: RowRules, engine_block_size: u32) -> Self {
        Self { format, rules, engine_block_size, hash_ids: Vec::new(), classes: Names::default() }
    }

    /// Whether the prompt of a later turn holds only what is new.
    pub(crate) fn deltas(&self) -> bool {
        self.format == TraceFormat::MooncakeDelta
    }

    /// The hash ids of the row decoded last.
    pub(crate) fn hash_ids(&self) -> &[u64] {
        &self.hash_ids
    }

    /// One with the same settings that has read nothing.
    pub(crate) fn for_another_reader(&self) -> Self {
        Self::new(self.format, self.rules, self.engine_block_size)
    }

    /// Parses a row; its prompt is then the one that `append_hashes` means.
    pub(crate) fn decode<'l>(&mut self, line: &'l [u8]) -> Result<Row<'l>, RowError> {
        match self.format {
            TraceFormat::Azure => azure::parse_row(line),
            _ => Row::parse(line, self.rules, &mut self.hash_ids),
        }
    }

    /// Makes a row that has just been decoded a request.
    pub(crate) fn turn(&mut self, row: &Row<'_>, number: u32) -> Turn {
        Turn {
            row: u64::from(number),
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            priority: row.priority,
            strict_priority: row.strict_priority,
            policy_class: row.policy_class.as_deref().map(|name| self.classes.number(name)),
            ..Turn::default()
        }
    }

    pub(crate) fn class_name(&self, class: u32) -> Option<&str> {
        self.classes.name(class)
    }

    /// Appends the hashes of the prompt of the row decoded last.
    pub(crate) fn append_hashes(&self, turn: &Turn, hashes: &mut Vec<u64>) {
        if self.format == TraceFormat::Azure {
            let blocks = turn.input_tokens / self.engine_block_size;
            append_chain(ROOT, Kind::Unique, turn.row, blocks, hashes);
        } else {
            let sizes = BlockSizes { trace: self.rules.trace_block_size, engine: self.engine_block_size };
            rechunk(&self.hash_ids, turn.input_tokens, sizes, hashes);
        }
    }

    /// Skips the line before the first row, if the format has one.
    pub(crate) fn skip_header(&self, file: &str, lines: &mut Lines<Stream>) -> Result<(), WorkloadError> {
        if self.format != TraceFormat::Azure {
            return Ok(());
        }
        match lines.next().map_err(|error| line_error(file, error))? {
            None => Err(WorkloadError::Empty { file: file.to_owned() }),
            Some(line) => azure::check_header(line.bytes).map_err(|error| row_error(file, line.number, error)),
        }
    }
}

pub(crate) fn row_error(file: &str, line: u64, source: RowError) -> WorkloadError {
    WorkloadError::Row { file: file.to_owned(), line, source }
}

pub(crate) fn line_error(file: &str, error: LineError) -> WorkloadError {
    match error {
        LineError::Io(source) => WorkloadError::Io { file: file.to_owned(), source },
        LineError::TooLong(line) => row_error(file, line, RowError::TooLong { limit: MAX_LINE_BYTES }),
    }
}

/// How the times of a trace become times of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Divides every gap and delay; finite and above 0.
    pub(crate) speedup: f64,
}

impl Scale {
    pub(crate) fn apply(self, span: Nanos) -> Nanos {
        // Without a speed-up the span stays exact beyond the 53 bits of a float.
        if self.speedup.to_bits() == 1f64.to_bits() {
            span
        } else {
            Nanos((span.0 as f64 / self.speedup).round() as u64)
        }
    }
}
