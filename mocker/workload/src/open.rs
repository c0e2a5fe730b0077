//! Opening a trace of any format as a workload.

use std::path::PathBuf;

use crate::agentic;
use crate::applied::AppliedTrace;
use crate::decode::Scale;
use crate::dynamo;
use crate::error::{OptionError, WorkloadError};
use crate::format::TraceFormat;
use crate::graph_trace::NamedSource;
use crate::index::Arrivals;
use crate::row::{DEFAULT_TRACE_BLOCK_SIZE, Excess, RowRules};
use crate::source::Source;
use crate::synthetic::SharedPrefix;
use crate::trace::{Trace, TraceOptions, check_block_size};
use crate::workload::Workload;

/// How to read a trace of any format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenOptions {
    /// The format of the files.
    pub format: TraceFormat,
    /// Tokens per hash id; without it what the trace says itself, or 512.
    pub trace_block_size: Option<u32>,
    /// What to do with prompts beyond their hash ids; only `mooncake` and `mooncake-delta` may cut them.
    pub excess: Excess,
    /// Tokens in a block of the engine; 1 or more.
    pub engine_block_size: u32,
    /// When first turns arrive.
    pub arrivals: Arrivals,
    /// Divides all gaps and delays; finite and above 0.
    pub arrival_speedup_ratio: f64,
    /// What the first prompts of `applied_compute_agentic` have in common.
    pub shared_prefix: SharedPrefix,
    /// Of requests that wait for each other: so many plays side by side, whatever their times.
    pub lanes: Option<u32>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            format: TraceFormat::default(),
            trace_block_size: None,
            excess: Excess::default(),
            engine_block_size: 64,
            arrivals: Arrivals::default(),
            arrival_speedup_ratio: 1.0,
            shared_prefix: SharedPrefix::default(),
            lanes: None,
        }
    }
}

impl OpenOptions {
    pub(crate) fn scale(&self) -> Scale {
        Scale { speedup: self.arrival_speedup_ratio }
    }

    fn trace_options(&self) -> TraceOptions {
        TraceOptions {
            format: self.format,
            rules: RowRules {
                trace_block_size: self.trace_block_size.unwrap_or(DEFAULT_TRACE_BLOCK_SIZE),
                excess: self.excess,
            },
            engine_block_size: self.engine_block_size,
            arrivals: self.arrivals,
            arrival_speedup_ratio: self.arrival_speedup_ratio,
        }
    }

    fn check(&self, files: usize) -> Result<(), WorkloadError> {
        let format = self.format;
        if let Some(size) = self.trace_block_size {
            check_block_size("trace_block_size", size)?;
        }
        check_block_size("block_size", self.engine_block_size)?;
        let ratio = self.arrival_speedup_ratio;
        OptionError::unless(ratio.is_finite() && ratio > 0.0, "arrival_speedup_ratio", &ratio, "finite and above 0")?;
        self.shared_prefix.check("trace_shared_prefix_ratio")?;
        OptionError::unless(self.lanes != Some(0), "agentic_lanes", &0, "1 or more")?;
        if files != 1 && (files == 0 || format != TraceFormat::Dynamo) {
            return Err(WorkloadError::Unfit { format, why: "needs exactly one file; only dynamo takes several" });
        }
        let why = match (format, self.arrivals) {
            (TraceFormat::AppliedComputeAgentic, Arrivals::Timestamps) => NO_TIMES,
            (TraceFormat::AgenticMooncake, Arrivals::InOrder) => OWN_SCHEDULE,
            _ => return Ok(()),
        };
        Err(WorkloadError::Unfit { format, why })
    }
}

/// Why sessions without times need a closed loop.
const NO_TIMES: &str = "has no arrival times, so it needs a fixed concurrency";
/// Why waiting requests have no closed loop.
const OWN_SCHEDULE: &str = "says itself when each request is sent, so it takes no fixed concurrency";

/// An opened trace.
pub struct Opened {
    /// Its requests.
    pub workload: Box<dyn Workload>,
    /// Number of prompts that were cut to what their hash ids cover.
    pub clamped_rows: u64,
}

/// Opens files, or the standard input for `-`, and checks every row.
pub fn open(files: &[PathBuf], options: &OpenOptions) -> Result<Opened, WorkloadError> {
    options.check(files.len())?;
    let open = |path: &PathBuf| NamedSource::open(path, options.format);
    open_sources(files.iter().map(open).collect::<Result<_, _>>()?, options)
}

/// Takes a trace from memory and checks every row; `name` stands for the file in messages.
pub fn open_bytes(name: &str, bytes: Vec<u8>, options: &OpenOptions) -> Result<Opened, WorkloadError> {
    options.check(1)?;
    open_sources(vec![NamedSource { name: name.to_owned(), source: Source::Memory(bytes.into()) }], options)
}

fn open_sources(mut files: Vec<NamedSource>, options: &OpenOptions) -> Result<Opened, WorkloadError> {
    let format = options.format;
    if format == TraceFormat::Dynamo {
        let trace = dynamo::open(files, options)?;
        if options.arrivals == Arrivals::InOrder && trace.waits() {
            return Err(WorkloadError::Unfit { format, why: OWN_SCHEDULE });
        }
        return Ok(Opened { workload: Box::new(trace), clamped_rows: 0 });
    }
    let why = "needs exactly one file; only dynamo takes several";
    let file = files.pop().ok_or(WorkloadError::Unfit { format, why })?;
    let workload: Box<dyn Workload> = match format {
        TraceFormat::AgenticMooncake => Box::new(agentic::open(file, options)?),
        TraceFormat::AppliedComputeAgentic => Box::new(AppliedTrace::open(file, options)?),
        _ => {
            let trace = Trace::from_source(file.name, file.source, &options.trace_options())?;
            let clamped_rows = trace.clamped_rows();
            return Ok(Opened { workload: Box::new(trace), clamped_rows });
        }
    };
    Ok(Opened { workload, clamped_rows: 0 })
}
