//! From flags to a workload and a configuration, everything checked before anything is sent.

use std::time::Duration;

use dynosim_load::limits::CONNECTIONS_MAX;
use dynosim_load::{Answering, Endpoint, LoadConfig, PromptFormat, Target, TargetError, first_model};
use dynosim_workload::{TraceFormat, Workload};

use super::flags::{EndpointKind, Flags, PromptKind};
use crate::commands::run::{BlockSize, admission, out_of_range, span, within};
use crate::failure::Failure;
use crate::live::Env;
use crate::printer::Printer;

/// Every tokenizer has so many, byte-level ones no more.
const VOCABULARY_DEFAULT: u32 = 256;
/// Most tokens of a vocabulary: what signed ids of 32 bits can name.
const VOCABULARY_MAX: u32 = 1 << 31;
/// Published default of engines.
const BLOCK_SIZE_DEFAULT: u32 = 64;
/// Traces name each token, so that their prompts fit whatever block size the server has.
const TRACE_BLOCK_SIZE: u32 = 1;
/// Longest time-out.
const TIMEOUT_MAX_SECONDS: f64 = 86_400.0;
/// Most warm-up requests.
const WARMUP_MAX: u32 = 1_000_000;

/// All that a run needs.
pub(crate) struct Setup {
    pub(crate) config: LoadConfig,
    pub(crate) workload: Box<dyn Workload>,
}

impl Setup {
    pub(crate) fn new(flags: &Flags, printer: Printer) -> Result<Self, Failure> {
        let endpoint = match flags.endpoint {
            EndpointKind::Completions => Endpoint::Completions,
            EndpointKind::Chat => Endpoint::Chat,
        };
        let format = format(flags)?;
        let timeout = flags.timeout_seconds;
        if !(0.001..=TIMEOUT_MAX_SECONDS).contains(&timeout) {
            return Err(out_of_range("--timeout-seconds", &timeout, "0.001 to 86400"));
        }
        let admission = admission(flags.replay_concurrency)?;
        let block_size = block_size(flags)?;
        let mut config = LoadConfig {
            model: flags.model.clone().unwrap_or_default(),
            endpoint,
            format,
            vocabulary: vocabulary(flags, format)?,
            answering: if flags.stream { Answering::Stream } else { Answering::Whole },
            block_size: if flags.workload.trace_files.is_empty() { block_size.synthetic } else { block_size.trace },
            admission,
            end: flags.max_sim_time_seconds.map(|s| span("--max-sim-time-seconds", s)).transpose()?,
            timeout: Duration::from_secs_f64(timeout),
            connections: within("--connections", flags.connections, 1, CONNECTIONS_MAX)?,
            warmup_requests: within("--warmup-requests", flags.warmup_requests, 0, WARMUP_MAX)?,
            sla: flags.sla.check()?,
            records: flags.output.report_jsonl.is_some(),
            target: target(flags)?,
        };
        if flags.workload.trace_format == TraceFormat::MooncakeDelta {
            let why = "prompts go on from the outputs before, which here the server makes; convert it to mooncake";
            return Err(Failure::input(format_args!("--trace-format mooncake-delta: {why}")));
        }
        let workload = flags.workload.open(block_size, admission, printer, Failure::from)?;
        if flags.model.is_none() {
            config.model = first_model(&config.target)?;
            printer.note(format_args!("the model is `{}`", config.model));
        }
        Ok(Self { config, workload })
    }
}

fn format(flags: &Flags) -> Result<PromptFormat, Failure> {
    match (flags.endpoint, flags.prompt_format) {
        (EndpointKind::Chat, Some(PromptKind::Tokens)) => {
            Err(Failure::input("--prompt-format tokens: a chat takes text only (allowed: text)"))
        }
        (EndpointKind::Completions, None | Some(PromptKind::Tokens)) => Ok(PromptFormat::Tokens),
        (EndpointKind::Chat, None) | (_, Some(PromptKind::Text)) => Ok(PromptFormat::Text),
    }
}

fn vocabulary(flags: &Flags, format: PromptFormat) -> Result<u32, Failure> {
    match (flags.vocabulary, format) {
        (Some(_), PromptFormat::Text) => Err(Failure::input("--vocabulary: has no effect with prompts of text")),
        (given, _) => within("--vocabulary", given.unwrap_or(VOCABULARY_DEFAULT), 2, VOCABULARY_MAX),
    }
}

fn block_size(flags: &Flags) -> Result<BlockSize, Failure> {
    if flags.block_size.is_some() && !flags.workload.trace_files.is_empty() {
        return Err(Failure::input("--block-size: has no effect with a trace file"));
    }
    Ok(BlockSize { trace: TRACE_BLOCK_SIZE, synthetic: flags.block_size.unwrap_or(BLOCK_SIZE_DEFAULT) })
}

fn target(flags: &Flags) -> Result<Target, Failure> {
    let env = Env::of_process();
    let (name, url) = match (&flags.url, env.get("DYNOSIM_URL")) {
        (Some(url), _) => ("--url", url.as_str()),
        (None, Some(url)) => ("DYNOSIM_URL", url),
        (None, None) => return Err(Failure::input("--url: missing, and DYNOSIM_URL is not set")),
    };
    let refuse = |error: TargetError| match error {
        TargetError::Form { .. } => Failure::input(format_args!("{name}: {error}")),
        TargetError::Resolve { .. } => Failure::io(format_args!("{name}: {error}")),
        TargetError::Header(_) => Failure::input(format_args!("--header: {error}")),
    };
    let target = Target::resolve(url).map_err(refuse)?;
    flags.header.iter().try_fold(target, |target, field| target.with_header(field)).map_err(refuse)
}
