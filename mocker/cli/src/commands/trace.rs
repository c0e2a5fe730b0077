//! `dynosim trace`: look at traces, make traces.
#![allow(clippy::doc_markdown, reason = "doc comments are help texts here")]

mod convert;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dynosim_workload::{
    Arrivals, GenerateError, GenerateOptions, LengthStats, LoopKind, OpenOptions, TraceFormat, TraceStats, generate,
    open,
};

use super::run::NO_HASH_IDS;
use crate::failure::Failure;
use crate::printer::{Printer, Verbosity};

/// Looks at traces, makes and converts them
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Stats(StatsFlags),
    Generate(GenerateFlags),
    Convert(convert::Flags),
}

/// Prints what a trace holds: requests, lengths, rates, and the reuse that an endless prefix cache would give
#[derive(Debug, Args)]
pub(crate) struct StatsFlags {
    /// Trace file, `-` for standard input; several with --trace-format dynamo
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// mooncake, mooncake-delta, agentic_mooncake, applied_compute_agentic, dynamo or azure
    #[arg(long, default_value_t)]
    trace_format: TraceFormat,
    /// Tokens per hash id of the trace [default: what the trace says, or 512]
    #[arg(long)]
    trace_block_size: Option<u32>,
    /// Tokens per block of the engine, for the reuse
    #[arg(long, default_value_t = 64)]
    block_size: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Writes a seeded Mooncake-like trace: popular system prompts start conversations that grow turn by turn
#[derive(Debug, Args)]
pub(crate) struct GenerateFlags {
    /// File to write, `-` for standard output
    #[arg(short, long)]
    output: PathBuf,
    /// Rows
    #[arg(long, default_value_t = GenerateOptions::default().requests)]
    requests: u64,
    /// Equal options with equal seeds give equal bytes
    #[arg(long, default_value_t = GenerateOptions::default().seed)]
    seed: u64,
    /// Conversations that start per second
    #[arg(long, default_value_t = GenerateOptions::default().conversation_rate_rps)]
    conversation_rate_rps: f64,
    /// Tokens per hash id
    #[arg(long, default_value_t = GenerateOptions::default().block_size)]
    block_size: u32,
    /// System prompts
    #[arg(long, default_value_t = GenerateOptions::default().groups)]
    groups: u32,
    /// Exponent of the popularity of system prompts
    #[arg(long, default_value_t = GenerateOptions::default().zipf)]
    zipf: f64,
    /// Turns of a conversation on average
    #[arg(long, default_value_t = GenerateOptions::default().mean_turns)]
    mean_turns: f64,
    /// A conversation ends before its prompt is longer
    #[arg(long, default_value_t = GenerateOptions::default().max_input_tokens)]
    max_input_tokens: u32,
    /// Median length of the user's new text
    #[arg(long, default_value_t = GenerateOptions::default().median_user_tokens)]
    median_user_tokens: f64,
    /// Median length of an output
    #[arg(long, default_value_t = GenerateOptions::default().median_output_tokens)]
    median_output_tokens: f64,
    /// Longest output
    #[arg(long, default_value_t = GenerateOptions::default().max_output_tokens)]
    max_output_tokens: u32,
    /// Pause of the user between turns on average
    #[arg(long, default_value_t = GenerateOptions::default().mean_think_ms)]
    mean_think_ms: f64,
    /// Later turns wait for the ones before: rows carry session_id and delay_ms in place of timestamps
    #[arg(long)]
    sessions: bool,
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Stats(flags) => stats(flags),
        Command::Generate(flags) => write_trace(flags),
        Command::Convert(flags) => convert::run(flags),
    }
}

fn stats(flags: &StatsFlags) -> Result<(), Failure> {
    if flags.trace_format == TraceFormat::Azure && flags.trace_block_size.is_some() {
        return Err(Failure::input(format_args!("--trace-block-size: {NO_HASH_IDS}")));
    }
    let untimed = flags.trace_format == TraceFormat::AppliedComputeAgentic;
    let options = OpenOptions {
        format: flags.trace_format,
        trace_block_size: flags.trace_block_size,
        engine_block_size: flags.block_size,
        arrivals: if untimed { Arrivals::InOrder } else { Arrivals::Timestamps },
        ..OpenOptions::default()
    };
    let mut workload = open(&flags.files, &options)?.workload;
    let stats = TraceStats::collect(&mut *workload, flags.block_size)?;
    let text =
        if flags.json { serde_json::to_string_pretty(&stats).map_err(Failure::bug)? + "\n" } else { describe(&stats) };
    Printer(Verbosity::Normal).result(text)
}

fn describe(stats: &TraceStats) -> String {
    let rate = stats.mean_rate_rps.map_or("none".to_owned(), |rate| format!("{rate:.3}"));
    let length = |name: &str, length: &LengthStats| {
        format!(
            "{name:<16}total {}, mean {:.1}, min {}, p50 {}, p90 {}, p99 {}, max {}\n",
            length.total, length.mean, length.min, length.p50, length.p90, length.p99, length.max
        )
    };
    format!(
        "requests        {}\nsessions        {} (up to {} turns)\nduration        {:.3} s\n\
         arrivals        mean {rate} /s, peak {:.3} /s over 1 s, {:.3} /s over 60 s\n{}{}\
         blocks          {} of {} tokens, {} distinct\nreuse           {:.4} of the input tokens with an endless cache\n",
        stats.requests,
        stats.sessions,
        stats.max_turns,
        stats.duration_s,
        stats.peak_rate_1s_rps,
        stats.peak_rate_60s_rps,
        length("input tokens", &stats.input_tokens),
        length("output tokens", &stats.output_tokens),
        stats.blocks,
        stats.block_size,
        stats.distinct_blocks,
        stats.reuse_ratio,
    )
}

fn write_trace(flags: &GenerateFlags) -> Result<(), Failure> {
    let options = GenerateOptions {
        requests: flags.requests,
        seed: flags.seed,
        conversation_rate_rps: flags.conversation_rate_rps,
        block_size: flags.block_size,
        groups: flags.groups,
        zipf: flags.zipf,
        mean_turns: flags.mean_turns,
        max_input_tokens: flags.max_input_tokens,
        median_user_tokens: flags.median_user_tokens,
        median_output_tokens: flags.median_output_tokens,
        max_output_tokens: flags.max_output_tokens,
        mean_think_ms: flags.mean_think_ms,
        loop_kind: if flags.sessions { LoopKind::Closed } else { LoopKind::Open },
    };
    // Options are checked before the file is touched.
    generate(&GenerateOptions { requests: options.requests.min(1), ..options }, &mut io::sink()).map_err(failure)?;
    let conversations = if flags.output == Path::new("-") {
        match generate(&options, &mut BufWriter::new(io::stdout().lock())) {
            // Whoever reads has seen enough.
            Err(GenerateError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            outcome => outcome.map_err(failure)?,
        }
    } else {
        let file = File::create(&flags.output)
            .map_err(|error| Failure::io(format_args!("{}: {error}", flags.output.display())))?;
        generate(&options, &mut BufWriter::new(file)).map_err(failure)?
    };
    Printer(Verbosity::Normal).note(format_args!(
        "wrote {} requests of {conversations} conversations to {}",
        options.requests,
        flags.output.display()
    ));
    Ok(())
}

fn failure(error: GenerateError) -> Failure {
    match error {
        GenerateError::Option(error) => error.into(),
        GenerateError::Write(_) => Failure::io(error),
    }
}
