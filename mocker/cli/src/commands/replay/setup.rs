//! From flags to a workload and a configuration, everything checked before anything runs.

use std::path::Path;

use dynosim_engine::args::EngineType;
use dynosim_engine::{EngineArgs, EngineConfig, Horizon, Nanos, Role};
use dynosim_replay::{Admission, ReplayConfig, Sla};
use dynosim_workload::error::compact;
use dynosim_workload::row::DEFAULT_TRACE_BLOCK_SIZE;
use dynosim_workload::synthetic::{SessionArrivals, SharedPrefix, Synthetic, SyntheticOptions};
use dynosim_workload::{Arrivals, Excess, RowRules, Trace, TraceFormat, TraceOptions, Workload, WorkloadError};

use super::flags::Flags;
use crate::failure::Failure;
use crate::printer::Printer;

/// Most workers of one run.
const WORKERS_MAX: u32 = 65_536;
/// Most KV blocks of all engines that keep a record per block (24 bytes).
const KV_BLOCKS_MAX: u64 = 1 << 28;
/// Published default without any arrival flag.
const ARRIVAL_INTERVAL_MS: f64 = 1.0;
/// Longest simulated time that can be asked for, in seconds (a hundred years).
const SIM_TIME_MAX_SECONDS: f64 = 3.2e9;

/// Why an Azure trace takes no flag about hash ids.
pub(crate) const NO_HASH_IDS: &str = "has no effect with --trace-format azure, whose rows have no hash ids";

/// Engine arguments that mean something only to a live worker, a transfer between pools, or a router.
const WITHOUT_EFFECT: [&str; 11] = [
    "bootstrap_port",
    "emit_kv_events",
    "enable_local_indexer",
    "handoff_session_timeout_ms",
    "kv_bytes_per_token",
    "kv_transfer_bandwidth",
    "kv_transfer_timing_mode",
    "response_replay_trace_path",
    "router_queue_policy",
    "zmq_kv_events_port",
    "zmq_replay_port",
];

/// All that a run needs.
pub(crate) struct Setup {
    pub(crate) config: ReplayConfig,
    pub(crate) workload: Box<dyn Workload>,
}

impl Setup {
    pub(crate) fn new(flags: &Flags, printer: Printer) -> Result<Self, Failure> {
        let args = engine_args(flags)?;
        let workers = within("--num-workers", flags.num_workers.unwrap_or(1), 1, WORKERS_MAX)?;
        check_size(&args, workers)?;
        let admission = match flags.replay_concurrency {
            Some(limit) => Admission::Concurrency(within("--replay-concurrency", limit, 1, u32::MAX)?),
            None => Admission::Schedule,
        };
        let end = flags.max_sim_time_seconds.map(|s| span("--max-sim-time-seconds", s)).transpose()?;
        let config = ReplayConfig {
            engines: engines(&args, workers)?,
            gpus_per_worker: u32::try_from(args.gpus()).unwrap_or(u32::MAX),
            admission,
            startup: span("--extra-engine-args: startup_time", args.startup_time.unwrap_or(0.0))?,
            end,
            sla: sla(flags)?,
            records: flags.report_jsonl.is_some(),
            kv_eviction_policy: args.eviction_name(),
            reasoning: args.reasoning,
            horizon: Horizon::Run,
        };
        let workload = workload(flags, &args, printer)?;
        Ok(Self { config, workload })
    }
}

fn engine_args(flags: &Flags) -> Result<EngineArgs, Failure> {
    let text = flags.extra_engine_args.as_deref().unwrap_or("{}");
    let prefix = |error: String| Failure::input(format_args!("--extra-engine-args: {error}"));
    let args = EngineArgs::from_json(text).map_err(|error| {
        let is_file = !text.is_empty() && Path::new(text).is_file();
        prefix(if is_file {
            format!("`{text}` is a file; give the JSON in it, \"$(cat {text})\"")
        } else {
            error.to_string()
        })
    })?;
    if args.worker_type != Role::Aggregated {
        let text = "worker_type: prefill and decode engines belong to disaggregated replay, which comes later";
        return Err(prefix(text.to_owned()));
    }
    match WITHOUT_EFFECT.iter().find(|key| args.was_given(key)) {
        Some(key) => Err(prefix(format!("{key}: has no effect in an offline run of aggregated workers, remove it"))),
        None => Ok(args),
    }
}

/// Fails for more ranks or blocks than a machine holds, before any memory is asked for.
fn check_size(args: &EngineArgs, workers: u32) -> Result<(), Failure> {
    let ranks = u64::from(workers) * u64::from(args.dp_size);
    if ranks > u64::from(WORKERS_MAX) {
        let dp_size = args.dp_size;
        return Err(Failure::input(format_args!(
            "--num-workers: {workers} workers of {dp_size} ranks are out of range (allowed: up to {WORKERS_MAX} ranks)"
        )));
    }
    let blocks = ranks.saturating_mul(args.num_gpu_blocks.into());
    if blocks > KV_BLOCKS_MAX && args.engine_type != EngineType::Sglang {
        return Err(Failure::input(format_args!(
            "--extra-engine-args: num_gpu_blocks: {blocks} blocks on {ranks} ranks together are out of range \
             (allowed: up to {KV_BLOCKS_MAX})"
        )));
    }
    Ok(())
}

fn engines(args: &EngineArgs, workers: u32) -> Result<Vec<EngineConfig>, Failure> {
    let timing = args
        .timing(&mut |path| std::fs::read(path))
        .map_err(|error| Failure::input(format_args!("--extra-engine-args: planner_profile_data: {error}")))?;
    Ok((0..workers).map(|worker| args.engine_config(u64::from(worker), timing.clone())).collect())
}

fn workload(flags: &Flags, args: &EngineArgs, printer: Printer) -> Result<Box<dyn Workload>, Failure> {
    let sizes = [flags.input_tokens, flags.output_tokens, flags.request_count];
    match (flags.trace_files.as_slice(), sizes) {
        ([file], [None, None, None]) => {
            refuse_given(&synthetic_flags(flags), "has no effect with a trace file")?;
            if flags.trace_format == TraceFormat::Azure {
                refuse_given(&hash_id_flags(flags), NO_HASH_IDS)?;
            }
            if flags.check_determinism && is_pipe(file) {
                return Err(Failure::input(
                    "--check-determinism: reads the trace twice, so it needs a file and no pipe",
                ));
            }
            let trace = Trace::open(file, &trace_options(flags, args.block_size)).map_err(refused)?;
            if trace.clamped_rows() > 0 {
                printer.note(format_args!(
                    "{} rows had longer prompts than their hash ids cover and were cut",
                    trace.clamped_rows()
                ));
            }
            Ok(Box::new(trace))
        }
        ([], [Some(input_tokens), Some(output_tokens), Some(request_count)]) => {
            refuse_given(&trace_flags(flags), "has no effect without a trace file")?;
            note_idle_flags(flags, printer);
            let sizes = SyntheticOptions { input_tokens, output_tokens, request_count, ..SyntheticOptions::default() };
            let options = synthetic_options(flags, args.block_size, sizes);
            Ok(Box::new(Synthetic::new(options).map_err(|error| refused(error.into()))?))
        }
        ([_, _, ..], _) => {
            Err(Failure::input("several trace files: only the dynamo format takes them, it comes later"))
        }
        _ => Err(Failure::input(
            "give either one trace file, or all of --input-tokens, --output-tokens, and --request-count",
        )),
    }
}

/// Says which flags change nothing. Published commands give some of them, so they are no errors.
fn note_idle_flags(flags: &Flags, printer: Printer) {
    if flags.replay_concurrency.is_some() && flags.arrival_interval_ms.is_some() {
        printer.note("--replay-concurrency ignores arrival times, --arrival-interval-ms among them");
    }
    if flags.shared_prefix_ratio.is_some_and(|ratio| ratio > 0.0) && flags.num_prefix_groups.unwrap_or(0) == 0 {
        printer.note("--shared-prefix-ratio has no effect without --num-prefix-groups");
    }
    if flags.inter_turn_delay_ms.is_some_and(|ms| ms > 0.0) && flags.turns_per_session.unwrap_or(1) == 1 {
        printer.note("--inter-turn-delay-ms has no effect with one turn per session");
    }
}

/// The block size is the one option of a workload that is no flag of its own here.
fn refused(error: WorkloadError) -> Failure {
    match error {
        WorkloadError::Option(error) if error.name == "block_size" => {
            Failure::input(format_args!("--extra-engine-args: {error}"))
        }
        error => error.into(),
    }
}

fn trace_options(flags: &Flags, engine_block_size: u32) -> TraceOptions {
    TraceOptions {
        format: flags.trace_format,
        rules: RowRules {
            trace_block_size: flags.trace_block_size.unwrap_or(DEFAULT_TRACE_BLOCK_SIZE),
            excess: if flags.lenient { Excess::Clamp } else { Excess::Reject },
        },
        engine_block_size,
        arrivals: if flags.replay_concurrency.is_some() { Arrivals::InOrder } else { Arrivals::Timestamps },
        arrival_speedup_ratio: flags.arrival_speedup_ratio,
    }
}

fn synthetic_options(flags: &Flags, block_size: u32, sizes: SyntheticOptions) -> SyntheticOptions {
    SyntheticOptions {
        turns_per_session: flags.turns_per_session.unwrap_or(sizes.turns_per_session),
        shared_prefix: SharedPrefix {
            ratio: flags.shared_prefix_ratio.unwrap_or(0.0),
            groups: flags.num_prefix_groups.unwrap_or(0),
        },
        inter_turn_delay_ms: flags.inter_turn_delay_ms.unwrap_or(0.0),
        arrivals: match flags.request_rate {
            Some(rate_rps) => SessionArrivals::Poisson { rate_rps, seed: flags.arrival_seed.unwrap_or(sizes.seed) },
            None => SessionArrivals::Interval { ms: flags.arrival_interval_ms.unwrap_or(ARRIVAL_INTERVAL_MS) },
        },
        block_size,
        ..sizes
    }
}

fn synthetic_flags(flags: &Flags) -> [(bool, &'static str); 7] {
    [
        (flags.arrival_interval_ms.is_some(), "--arrival-interval-ms"),
        (flags.request_rate.is_some(), "--request-rate"),
        (flags.arrival_seed.is_some(), "--arrival-seed"),
        (flags.turns_per_session.is_some(), "--turns-per-session"),
        (flags.shared_prefix_ratio.is_some(), "--shared-prefix-ratio"),
        (flags.num_prefix_groups.is_some(), "--num-prefix-groups"),
        (flags.inter_turn_delay_ms.is_some(), "--inter-turn-delay-ms"),
    ]
}

/// Whether what is there can be read only once.
fn is_pipe(file: &Path) -> bool {
    file == Path::new("-") || file.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn hash_id_flags(flags: &Flags) -> [(bool, &'static str); 2] {
    [(flags.trace_block_size.is_some(), "--trace-block-size"), (flags.lenient, "--lenient")]
}

fn trace_flags(flags: &Flags) -> [(bool, &'static str); 4] {
    let [trace_block_size, lenient] = hash_id_flags(flags);
    [
        trace_block_size,
        lenient,
        (flags.arrival_speedup_ratio.to_bits() != 1f64.to_bits(), "--arrival-speedup-ratio"),
        (flags.trace_format != TraceFormat::default(), "--trace-format"),
    ]
}

fn refuse_given(flags: &[(bool, &'static str)], why: &str) -> Result<(), Failure> {
    match flags.iter().find(|(given, _)| *given) {
        Some((_, flag)) => Err(Failure::input(format_args!("{flag}: {why}"))),
        None => Ok(()),
    }
}

fn sla(flags: &Flags) -> Result<Sla, Failure> {
    let sla = Sla { ttft_ms: flags.sla_ttft_ms, itl_ms: flags.sla_itl_ms, e2e_ms: flags.sla_e2e_ms };
    for (flag, limit) in [("--sla-ttft-ms", sla.ttft_ms), ("--sla-itl-ms", sla.itl_ms), ("--sla-e2e-ms", sla.e2e_ms)] {
        if let Some(limit) = limit.filter(|limit| !(limit.is_finite() && *limit >= 0.0)) {
            return Err(out_of_range(flag, &limit, "0 or more, finite"));
        }
    }
    if let Some(share) = flags.fail_on_sla {
        if !(0.0..=1.0).contains(&share) {
            return Err(out_of_range("--fail-on-sla", &share, "0 to 1"));
        }
        if !sla.is_set() {
            return Err(Failure::input("--fail-on-sla: needs --sla-ttft-ms, --sla-itl-ms or --sla-e2e-ms"));
        }
    }
    Ok(sla)
}

fn span(flag: &str, seconds: f64) -> Result<Nanos, Failure> {
    if (0.0..=SIM_TIME_MAX_SECONDS).contains(&seconds) {
        Ok(Nanos::from_secs(seconds))
    } else {
        Err(out_of_range(flag, &seconds, &format!("0 to {SIM_TIME_MAX_SECONDS}")))
    }
}

fn within(flag: &str, value: u32, least: u32, most: u32) -> Result<u32, Failure> {
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(out_of_range(flag, &value, &format!("{least} to {most}")))
    }
}

fn out_of_range(flag: &str, value: &impl ToString, allowed: &str) -> Failure {
    let value = compact(value);
    Failure::input(format_args!("{flag}: {value} is out of range (allowed: {allowed})"))
}
