//! `dynosim trace convert`: a trace of one format as one of another.
#![allow(clippy::doc_markdown, reason = "doc comments are help texts here")]

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

use clap::Args;
use dynosim_workload::synthetic::SharedPrefix;
use dynosim_workload::{ConvertError, ConvertOptions, Converted, TraceFormat, convert};

use crate::failure::Failure;
use crate::printer::{Printer, Verbosity};

/// Writes a trace of one format as one of another
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Trace file, `-` for standard input; several with --from dynamo
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// File to write, `-` for standard output
    #[arg(short, long)]
    output: PathBuf,
    /// Format that is read
    #[arg(long)]
    from: TraceFormat,
    /// Format that is written
    #[arg(long)]
    to: TraceFormat,
    /// Write agentic_mooncake with a header and typed dependencies, as Dynamo 1.6 does
    #[arg(long)]
    versioned: bool,
    /// Tokens per hash id that is read [default: what the trace says, or 512]
    #[arg(long)]
    trace_block_size: Option<u32>,
    /// For applied_compute_agentic: share of the first prompt's blocks that its group shares, 0 to 1 [default: 0]
    #[arg(long)]
    trace_shared_prefix_ratio: Option<f64>,
    /// For applied_compute_agentic: groups that share, line by line in turn; 0: none [default: 0]
    #[arg(long)]
    trace_num_prefix_groups: Option<u32>,
}

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    check(flags)?;
    let options = ConvertOptions {
        from: flags.from,
        to: flags.to,
        versioned: flags.versioned,
        trace_block_size: flags.trace_block_size,
        shared_prefix: SharedPrefix {
            ratio: flags.trace_shared_prefix_ratio.unwrap_or(0.0),
            groups: flags.trace_num_prefix_groups.unwrap_or(0),
        },
    };
    options.check().map_err(failure)?;
    let Converted { rows, block_size } = if flags.output == Path::new("-") {
        match convert(&flags.files, &options, &mut BufWriter::new(io::stdout().lock())) {
            // Whoever reads has seen enough.
            Err(ConvertError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            outcome => outcome.map_err(failure)?,
        }
    } else {
        to_file(flags, &options)?
    };
    let output = flags.output.display();
    Printer(Verbosity::Normal).note(format_args!("wrote {rows} requests to {output}, --trace-block-size {block_size}"));
    Ok(())
}

/// Refuses flags that mean nothing to the formats.
fn check(flags: &Flags) -> Result<(), Failure> {
    let refuse = |flag: &str, why: &str| Err(Failure::input(format_args!("{flag}: {why}")));
    let sharing = flags.from == TraceFormat::AppliedComputeAgentic;
    let without = "has no effect without --from applied_compute_agentic";
    if flags.trace_shared_prefix_ratio.is_some() && !sharing {
        return refuse("--trace-shared-prefix-ratio", without);
    }
    if flags.trace_num_prefix_groups.is_some() && !sharing {
        return refuse("--trace-num-prefix-groups", without);
    }
    if flags.versioned && flags.to != TraceFormat::AgenticMooncake {
        return refuse("--versioned", "has no effect without --to agentic_mooncake");
    }
    if flags.trace_block_size.is_some() && !flags.from.has_hash_ids() {
        return refuse("--trace-block-size", "has no effect with --from azure, whose rows have no hash ids");
    }
    Ok(())
}

/// Writes beside the target first: a trace that cannot be converted leaves nothing, and a file may become itself.
fn to_file(flags: &Flags, options: &ConvertOptions) -> Result<Converted, Failure> {
    let name = flags.output.file_name().unwrap_or_default().to_string_lossy();
    let partial = flags.output.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let write_error = |error: io::Error| Failure::io(format_args!("{}: {error}", flags.output.display()));
    let file = File::create(&partial).map_err(write_error)?;
    let converted = convert(&flags.files, options, &mut BufWriter::new(file)).map_err(failure);
    let renamed = converted
        .and_then(|converted| std::fs::rename(&partial, &flags.output).map_err(write_error).map(|()| converted));
    if renamed.is_err() {
        // What is wrong has been found; a file that cannot be taken away either changes nothing about it.
        let _ = std::fs::remove_file(&partial);
    }
    renamed
}

fn failure(error: ConvertError) -> Failure {
    match error {
        ConvertError::Workload(error) => error.into(),
        ConvertError::Pair { .. } => Failure::input(error),
        ConvertError::Write(_) => Failure::io(error),
    }
}
