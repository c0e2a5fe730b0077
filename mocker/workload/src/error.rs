//! What can be wrong with a workload, in words for the person who wrote it.

use std::io;

use crate::format::TraceFormat;

/// A value that an option or a field must not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The line is no JSON text.
    #[error("{}not JSON at column {column}: {message}{}", prefix(*.field), excerpt(.near))]
    NotJson {
        /// The field being read, if any.
        field: Option<&'static str>,
        /// 1-based, in bytes.
        column: usize,
        /// What the parser expected.
        message: String,
        /// The text at that column.
        near: String,
    },
    /// The line is JSON but no object.
    #[error("{found} is no row (allowed: a JSON object)")]
    NotAnObject {
        /// What it is instead.
        found: String,
    },
    /// A required field is absent or null.
    #[error("{field}: missing (allowed: {allowed})")]
    Missing {
        /// Its name.
        field: &'static str,
        /// What belongs there.
        allowed: &'static str,
    },
    /// A field has a value of another type.
    #[error("{field}: {value} is of the wrong type (allowed: {allowed})")]
    WrongType {
        /// Its name.
        field: &'static str,
        /// The value, shortened.
        value: String,
        /// What belongs there.
        allowed: &'static str,
    },
    /// A field has a value outside its range.
    #[error("{field}: {value} is out of range (allowed: {allowed})")]
    OutOfRange {
        /// Its name.
        field: &'static str,
        /// The value.
        value: String,
        /// The range.
        allowed: String,
    },
    /// A field is there twice, perhaps under its other name.
    #[error("{field}: given twice, the other time as `{other}` (allowed: once)")]
    Twice {
        /// The second one.
        field: &'static str,
        /// The first one.
        other: &'static str,
    },
    /// A CSV row does not have the columns it should have.
    #[error("{found} columns (allowed: {expected})")]
    Columns {
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// The line is no text.
    #[error("byte {column} is not UTF-8 (allowed: UTF-8 text)")]
    Encoding {
        /// 1-based.
        column: usize,
    },
    /// The line is too long to be held in memory.
    #[error("the line is longer than {limit} bytes (allowed: up to that)")]
    TooLong {
        /// The longest line accepted, in bytes.
        limit: usize,
    },
}

fn prefix(field: Option<&'static str>) -> String {
    field.map(|name| format!("{name}: ")).unwrap_or_default()
}

fn excerpt(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(", near `{text}`") }
}

impl RowError {
    pub(crate) fn range(field: &'static str, value: &impl ToString, allowed: impl Into<String>) -> Self {
        Self::OutOfRange { field, value: value.to_string(), allowed: allowed.into() }
    }
}

/// An option with a value that it must not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {value} is out of range (allowed: {allowed})")]
pub struct OptionError {
    /// The option, spelt as its field.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it may be.
    pub allowed: &'static str,
}

impl OptionError {
    /// Fails with this error unless `holds`.
    pub(crate) fn unless(
        holds: bool,
        name: &'static str,
        value: &impl ToString,
        allowed: &'static str,
    ) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self { name, value: compact(value), allowed }) }
    }
}

/// A number as messages show it: one of hundreds of digits in scientific notation.
pub fn compact(number: &impl ToString) -> String {
    let text = number.to_string();
    match text.parse::<f64>() {
        Ok(value) if text.len() > 24 => format!("{value:e}"),
        _ => text,
    }
}

/// Why a workload cannot be opened, read or made.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The file cannot be opened or read.
    #[error("{file}: {source}")]
    Io {
        /// The file as given.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// The file is compressed, but not well, or it is too large.
    #[error("{file}: cannot be inflated: {source}")]
    Inflate {
        /// The file as given.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// A line of the file is not a valid row.
    #[error("{file}:{line}: {source}")]
    Row {
        /// The file as given.
        file: String,
        /// 1-based, blank lines counted.
        line: u64,
        /// What is wrong with it.
        source: RowError,
    },
    /// The file holds no request.
    #[error("{file}: no requests (allowed: one or more rows)")]
    Empty {
        /// The file as given.
        file: String,
    },
    /// The file holds more rows than can be numbered.
    #[error("{file}: more than {limit} rows (allowed: up to that)")]
    TooManyRows {
        /// The file as given.
        file: String,
        /// The most rows accepted.
        limit: u64,
    },
    /// The file is another than the one that was checked when it was opened.
    #[error("{file}: changed while it was being read, at row {row}")]
    Changed {
        /// The file as given.
        file: String,
        /// 1-based, blank lines not counted.
        row: u64,
    },
    /// An option has a value that it must not have.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The format does not go with another option, or with where requests go.
    #[error("trace format `{format}` {why}")]
    Unfit {
        /// The format.
        format: TraceFormat,
        /// What is in the way, and what would not be.
        why: &'static str,
    },
    /// The driver asked for a turn that is not due.
    #[error("session {session} has no turn waiting to be taken")]
    NoTurn {
        /// Its dense number.
        session: u32,
    },
}
