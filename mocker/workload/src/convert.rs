//! Traces of one format as traces of another.
//!
//! ```text
//!   mooncake ◄──► mooncake-delta          dynamo ──► mooncake, agentic_mooncake
//!   mooncake ──► agentic_mooncake         applied_compute_agentic, azure ──► mooncake
//!   agentic_mooncake ──► agentic_mooncake (flat ◄──► versioned)
//! ```
//!
//! Rows are read and written one after the other; kept is what the target needs to know of the sessions so far.

mod agentic;
mod deltas;
mod numbers;
mod plain;
mod rows;

use std::io::{self, Write};
use std::path::PathBuf;

use crate::decode::{line_error, row_error};
use crate::error::{OptionError, RowError, WorkloadError};
use crate::format::TraceFormat;
use crate::graph_trace::NamedSource;
use crate::lines::{Line, Lines};
use crate::row::DEFAULT_TRACE_BLOCK_SIZE;
use crate::source::Source;
use crate::synthetic::SharedPrefix;
use crate::trace::check_block_size;

/// What is to become what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConvertOptions {
    /// The format that is read.
    pub from: TraceFormat,
    /// The format that is written.
    pub to: TraceFormat,
    /// Write the form of `agentic_mooncake` with a header, as Dynamo 1.6 does.
    pub versioned: bool,
    /// Tokens per hash id that is read; without it what the trace says itself, or 512.
    pub trace_block_size: Option<u32>,
    /// What the first prompts of `applied_compute_agentic` have in common.
    pub shared_prefix: SharedPrefix,
}

/// What has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Requests.
    pub rows: u64,
    /// Tokens per hash id.
    pub block_size: u32,
}

/// Why a trace was not converted.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The trace is no good, or cannot be said in the other format.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// There is no way from the one format to the other.
    #[error("{from} to {to}: cannot be converted (allowed: {ALLOWED})")]
    Pair {
        /// The format that was to be read.
        from: TraceFormat,
        /// The format that was to be written.
        to: TraceFormat,
    },
    /// What is written cannot be written.
    #[error("the trace cannot be written: {0}")]
    Write(#[from] io::Error),
}

impl From<OptionError> for ConvertError {
    fn from(error: OptionError) -> Self {
        Self::Workload(error.into())
    }
}

const ALLOWED: &str = "mooncake to mooncake-delta or agentic_mooncake; mooncake-delta, applied_compute_agentic or azure \
                       to mooncake; dynamo to mooncake or agentic_mooncake; agentic_mooncake to itself, from one form \
                       to the other";

impl ConvertOptions {
    /// Fails unless there is a way from the one format to the other.
    pub fn check(&self) -> Result<(), ConvertError> {
        use TraceFormat::{AgenticMooncake, AppliedComputeAgentic, Azure, Dynamo, Mooncake, MooncakeDelta};
        if let Some(size) = self.trace_block_size {
            check_block_size("trace_block_size", size)?;
        }
        self.shared_prefix.check("trace_shared_prefix_ratio")?;
        match (self.from, self.to) {
            (Mooncake | Dynamo | AgenticMooncake, AgenticMooncake)
            | (Mooncake, MooncakeDelta)
            | (MooncakeDelta | AppliedComputeAgentic | Azure | Dynamo, Mooncake) => Ok(()),
            (from, to) => Err(ConvertError::Pair { from, to }),
        }
    }

    fn block_size(&self) -> u32 {
        self.trace_block_size.unwrap_or(DEFAULT_TRACE_BLOCK_SIZE)
    }
}

/// Converts files, or the standard input for `-`; several only of the `dynamo` format.
///
/// After an error, `out` holds what was written until then.
pub fn convert(files: &[PathBuf], options: &ConvertOptions, out: &mut dyn Write) -> Result<Converted, ConvertError> {
    options.check()?;
    let format = options.from;
    if files.len() != 1 && (files.is_empty() || format != TraceFormat::Dynamo) {
        let why = "needs exactly one file; only dynamo takes several";
        return Err(WorkloadError::Unfit { format, why }.into());
    }
    let open = |path: &PathBuf| NamedSource::open(path, format);
    convert_sources(files.iter().map(open).collect::<Result<_, _>>()?, options, out)
}

/// Converts a trace in memory; `name` stands for the file in messages.
pub fn convert_bytes(
    name: &str,
    bytes: Vec<u8>,
    options: &ConvertOptions,
    out: &mut dyn Write,
) -> Result<Converted, ConvertError> {
    options.check()?;
    let file = NamedSource { name: name.to_owned(), source: Source::Memory(bytes.into()) };
    convert_sources(vec![file], options, out)
}

fn convert_sources(
    files: Vec<NamedSource>,
    options: &ConvertOptions,
    out: &mut dyn Write,
) -> Result<Converted, ConvertError> {
    use TraceFormat::{AgenticMooncake, AppliedComputeAgentic, Azure, Dynamo, Mooncake, MooncakeDelta};
    let converted = match (options.from, options.to, files.first()) {
        (Dynamo, AgenticMooncake, _) => agentic::from_dynamo(files, options, out),
        (Dynamo, _, _) => plain::from_dynamo(files, options, out),
        (Mooncake, MooncakeDelta, Some(file)) => deltas::to_delta(file, options, out),
        (Mooncake, _, Some(file)) => agentic::from_mooncake(file, options, out),
        (MooncakeDelta, _, Some(file)) => deltas::from_delta(file, options, out),
        (AppliedComputeAgentic, _, Some(file)) => plain::from_applied(file, options, out),
        (Azure, _, Some(file)) => plain::from_azure(file, out),
        (AgenticMooncake, _, Some(file)) => agentic::between_forms(file, options, out),
        (from, to, None) => return Err(ConvertError::Pair { from, to }),
    }?;
    out.flush()?;
    Ok(converted)
}

/// Calls `each` with every line that is not blank; fails if there is none.
fn for_each_line(
    file: &NamedSource,
    mut each: impl FnMut(&Line<'_>) -> Result<(), Fault>,
) -> Result<u64, ConvertError> {
    let name = &file.name;
    let mut lines = Lines::new(file.source.stream());
    let mut count = 0;
    while let Some(line) = lines.next().map_err(|error| line_error(name, error))? {
        count += 1;
        each(&line).map_err(|fault| match fault {
            Fault::Row(error) => row_error(name, line.number, error).into(),
            Fault::Write(error) => ConvertError::Write(error),
        })?;
    }
    if count == 0 { Err(WorkloadError::Empty { file: name.clone() }.into()) } else { Ok(count) }
}

/// What can go wrong with one line.
enum Fault {
    Row(RowError),
    Write(io::Error),
}

impl From<RowError> for Fault {
    fn from(error: RowError) -> Self {
        Self::Row(error)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}
