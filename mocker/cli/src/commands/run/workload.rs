//! The workload of a run, from a trace or made.
#![allow(clippy::doc_markdown, reason = "doc comments are help texts here")]

use std::path::{Path, PathBuf};

use clap::Args;
use dynosim_replay::Admission;
use dynosim_workload::synthetic::{SessionArrivals, SharedPrefix, Synthetic, SyntheticOptions};
use dynosim_workload::{Arrivals, Excess, OpenOptions, TraceFormat, Workload, WorkloadError, open};

use crate::failure::Failure;
use crate::printer::Printer;

/// Published default without any arrival flag.
const ARRIVAL_INTERVAL_MS: f64 = 1.0;

/// Why an Azure trace takes no flag about hash ids.
pub(crate) const NO_HASH_IDS: &str = "has no effect with --trace-format azure, whose rows have no hash ids";

/// What is sent
#[derive(Debug, Args)]
pub(crate) struct WorkloadFlags {
    /// Trace file, `-` for standard input; several with --trace-format dynamo
    #[arg(value_name = "TRACE_FILE", help_heading = "Workload: a trace")]
    pub(crate) trace_files: Vec<PathBuf>,
    /// mooncake, mooncake-delta, agentic_mooncake, applied_compute_agentic, dynamo or azure
    #[arg(long, default_value_t, help_heading = "Workload: a trace")]
    pub(crate) trace_format: TraceFormat,
    /// Tokens per hash id of the trace [default: what the trace says, or 512]
    #[arg(long, help_heading = "Workload: a trace")]
    pub(crate) trace_block_size: Option<u32>,
    /// Divides all arrival gaps and delays of the trace
    #[arg(long, default_value_t = 1.0, help_heading = "Workload: a trace")]
    pub(crate) arrival_speedup_ratio: f64,
    /// Cut prompts that are longer than their hash ids cover, instead of refusing the trace
    #[arg(long, help_heading = "Workload: a trace")]
    pub(crate) lenient: bool,
    /// For applied_compute_agentic: share of the first prompt's blocks that its group shares, 0 to 1 [default: 0]
    #[arg(long, help_heading = "Workload: a trace")]
    pub(crate) trace_shared_prefix_ratio: Option<f64>,
    /// For applied_compute_agentic: groups that share, line by line in turn; 0: none [default: 0]
    #[arg(long, help_heading = "Workload: a trace")]
    pub(crate) trace_num_prefix_groups: Option<u32>,
    /// For agentic_mooncake and dynamo: plays side by side, whatever their times; a play is what hangs together
    #[arg(long, help_heading = "Workload: a trace")]
    pub(crate) agentic_lanes: Option<u32>,

    /// Prompt length of every request, tokens
    #[arg(long, help_heading = "Workload: synthetic")]
    pub(crate) input_tokens: Option<u32>,
    /// Output length of every request, tokens
    #[arg(long, help_heading = "Workload: synthetic")]
    pub(crate) output_tokens: Option<u32>,
    /// Requests; sessions if there are several turns
    #[arg(long, help_heading = "Workload: synthetic")]
    pub(crate) request_count: Option<u32>,
    /// One session every so many milliseconds [default: 1.0]
    #[arg(long, help_heading = "Workload: synthetic")]
    pub(crate) arrival_interval_ms: Option<f64>,
    /// Sessions per second, Poisson
    #[arg(long, help_heading = "Workload: synthetic", conflicts_with_all = ["arrival_interval_ms", "replay_concurrency"])]
    pub(crate) request_rate: Option<f64>,
    /// Seeds the Poisson arrivals [default: 42]
    #[arg(long, help_heading = "Workload: synthetic", requires = "request_rate")]
    pub(crate) arrival_seed: Option<u64>,
    /// Requests per session [default: 1]
    #[arg(long, help_heading = "Workload: synthetic")]
    pub(crate) turns_per_session: Option<u32>,
    /// Share of a prompt's blocks that its group shares, 0 to 1 [default: 0]
    #[arg(long, help_heading = "Workload: synthetic")]
    pub(crate) shared_prefix_ratio: Option<f64>,
    /// Groups that share a prefix; 0: none [default: 0]
    #[arg(long, help_heading = "Workload: synthetic")]
    pub(crate) num_prefix_groups: Option<u32>,
    /// Pause between a turn's end and the next turn, milliseconds [default: 0]
    #[arg(long, help_heading = "Workload: synthetic")]
    pub(crate) inter_turn_delay_ms: Option<f64>,
}

/// Tokens that one hash of a prompt stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockSize {
    /// In a trace.
    pub(crate) trace: u32,
    /// In a synthetic workload.
    pub(crate) synthetic: u32,
}

impl WorkloadFlags {
    /// Opens the trace, or prepares the synthetic workload; everything is checked. `refused` says what is wrong with an
    /// option that has no flag of its own name.
    pub(crate) fn open(
        &self,
        block_size: BlockSize,
        admission: Admission,
        printer: Printer,
        refused: fn(WorkloadError) -> Failure,
    ) -> Result<Box<dyn Workload>, Failure> {
        let sizes = [self.input_tokens, self.output_tokens, self.request_count];
        match (self.trace_files.as_slice(), sizes) {
            (files @ [_, ..], [None, None, None]) if files.len() == 1 || self.trace_format == TraceFormat::Dynamo => {
                refuse_given(&self.synthetic_flags(), "has no effect with a trace file")?;
                self.check_format(admission)?;
                let opened = open(files, &self.open_options(block_size.trace, admission)).map_err(refused)?;
                if opened.clamped_rows > 0 {
                    printer.note(format_args!(
                        "{} rows had longer prompts than their hash ids cover and were cut",
                        opened.clamped_rows
                    ));
                }
                Ok(opened.workload)
            }
            ([], [Some(input_tokens), Some(output_tokens), Some(request_count)]) => {
                refuse_given(&self.trace_flags(), "has no effect without a trace file")?;
                self.note_idle_flags(admission, printer);
                let sizes =
                    SyntheticOptions { input_tokens, output_tokens, request_count, ..SyntheticOptions::default() };
                let options = self.synthetic_options(block_size.synthetic, sizes);
                Ok(Box::new(Synthetic::new(options).map_err(|error| refused(error.into()))?))
            }
            ([_, _, ..], _) => Err(Failure::input("several trace files: only --trace-format dynamo takes them")),
            _ => Err(Failure::input(
                "give either one trace file, or all of --input-tokens, --output-tokens, and --request-count",
            )),
        }
    }

    /// Whether the trace can be read only once.
    pub(crate) fn is_pipe(&self) -> bool {
        self.trace_files.iter().any(|file| is_pipe(file))
    }

    /// Says which flags change nothing. Published commands give some of them, so they are no errors.
    fn note_idle_flags(&self, admission: Admission, printer: Printer) {
        if admission != Admission::Schedule && self.arrival_interval_ms.is_some() {
            printer.note("--replay-concurrency ignores arrival times, --arrival-interval-ms among them");
        }
        if self.shared_prefix_ratio.is_some_and(|ratio| ratio > 0.0) && self.num_prefix_groups.unwrap_or(0) == 0 {
            printer.note("--shared-prefix-ratio has no effect without --num-prefix-groups");
        }
        if self.inter_turn_delay_ms.is_some_and(|ms| ms > 0.0) && self.turns_per_session.unwrap_or(1) == 1 {
            printer.note("--inter-turn-delay-ms has no effect with one turn per session");
        }
    }

    fn open_options(&self, engine_block_size: u32, admission: Admission) -> OpenOptions {
        OpenOptions {
            format: self.trace_format,
            trace_block_size: self.trace_block_size,
            excess: if self.lenient { Excess::Clamp } else { Excess::Reject },
            engine_block_size,
            arrivals: if admission == Admission::Schedule { Arrivals::Timestamps } else { Arrivals::InOrder },
            arrival_speedup_ratio: self.arrival_speedup_ratio,
            shared_prefix: SharedPrefix {
                ratio: self.trace_shared_prefix_ratio.unwrap_or(0.0),
                groups: self.trace_num_prefix_groups.unwrap_or(0),
            },
            lanes: self.agentic_lanes,
        }
    }

    /// Refuses flags that mean nothing to the format of the trace.
    fn check_format(&self, admission: Admission) -> Result<(), Failure> {
        let format = self.trace_format;
        if format == TraceFormat::Azure {
            refuse_given(&self.hash_id_flags(), NO_HASH_IDS)?;
        }
        if !matches!(format, TraceFormat::Mooncake | TraceFormat::MooncakeDelta) {
            let why = format!("has no effect with --trace-format {format}, which has no such prompts or refuses them");
            refuse_given(&[(self.lenient, "--lenient")], &why)?;
        }
        if format != TraceFormat::AppliedComputeAgentic {
            refuse_given(&self.sharing_flags(), "has no effect without --trace-format applied_compute_agentic")?;
        } else if admission == Admission::Schedule {
            let why = "has no arrival times, so it needs --replay-concurrency";
            return Err(Failure::input(format_args!("--trace-format {format}: {why}")));
        }
        if !format.is_graph() {
            let why = "has no effect without --trace-format agentic_mooncake or dynamo";
            refuse_given(&[(self.agentic_lanes.is_some(), "--agentic-lanes")], why)?;
        }
        let closed = admission != Admission::Schedule;
        if closed && (format == TraceFormat::AgenticMooncake || self.agentic_lanes.is_some()) {
            let why = "requests that wait for others say themselves when they are sent; --agentic-lanes limits plays";
            return Err(Failure::input(format_args!("--replay-concurrency: {why}")));
        }
        Ok(())
    }

    fn synthetic_options(&self, block_size: u32, sizes: SyntheticOptions) -> SyntheticOptions {
        SyntheticOptions {
            turns_per_session: self.turns_per_session.unwrap_or(sizes.turns_per_session),
            shared_prefix: SharedPrefix {
                ratio: self.shared_prefix_ratio.unwrap_or(0.0),
                groups: self.num_prefix_groups.unwrap_or(0),
            },
            inter_turn_delay_ms: self.inter_turn_delay_ms.unwrap_or(0.0),
            arrivals: match self.request_rate {
                Some(rate_rps) => SessionArrivals::Poisson { rate_rps, seed: self.arrival_seed.unwrap_or(sizes.seed) },
                None => SessionArrivals::Interval { ms: self.arrival_interval_ms.unwrap_or(ARRIVAL_INTERVAL_MS) },
            },
            block_size,
            ..sizes
        }
    }

    fn synthetic_flags(&self) -> [(bool, &'static str); 7] {
        [
            (self.arrival_interval_ms.is_some(), "--arrival-interval-ms"),
            (self.request_rate.is_some(), "--request-rate"),
            (self.arrival_seed.is_some(), "--arrival-seed"),
            (self.turns_per_session.is_some(), "--turns-per-session"),
            (self.shared_prefix_ratio.is_some(), "--shared-prefix-ratio"),
            (self.num_prefix_groups.is_some(), "--num-prefix-groups"),
            (self.inter_turn_delay_ms.is_some(), "--inter-turn-delay-ms"),
        ]
    }

    fn hash_id_flags(&self) -> [(bool, &'static str); 2] {
        [(self.trace_block_size.is_some(), "--trace-block-size"), (self.lenient, "--lenient")]
    }

    fn sharing_flags(&self) -> [(bool, &'static str); 2] {
        [
            (self.trace_shared_prefix_ratio.is_some(), "--trace-shared-prefix-ratio"),
            (self.trace_num_prefix_groups.is_some(), "--trace-num-prefix-groups"),
        ]
    }

    fn trace_flags(&self) -> [(bool, &'static str); 7] {
        let [trace_block_size, lenient] = self.hash_id_flags();
        let [ratio, groups] = self.sharing_flags();
        [
            trace_block_size,
            lenient,
            (self.arrival_speedup_ratio.to_bits() != 1f64.to_bits(), "--arrival-speedup-ratio"),
            (self.trace_format != TraceFormat::default(), "--trace-format"),
            ratio,
            groups,
            (self.agentic_lanes.is_some(), "--agentic-lanes"),
        ]
    }
}

/// Whether what is there can be read only once.
fn is_pipe(file: &Path) -> bool {
    file == Path::new("-") || file.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn refuse_given(flags: &[(bool, &'static str)], why: &str) -> Result<(), Failure> {
    match flags.iter().find(|(given, _)| *given) {
        Some((_, flag)) => Err(Failure::input(format_args!("{flag}: {why}"))),
        None => Ok(()),
    }
}
