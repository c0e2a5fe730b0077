//! From flags to a workload and a configuration, everything checked before anything runs.

use std::path::Path;

use dynosim_engine::args::EngineType;
use dynosim_engine::{EngineArgs, EngineConfig, Horizon, Role};
use dynosim_replay::ReplayConfig;
use dynosim_workload::{Workload, WorkloadError};

use super::flags::Flags;
use crate::commands::run::{BlockSize, admission, span, within};
use crate::failure::Failure;
use crate::printer::Printer;

/// Most workers of one run.
const WORKERS_MAX: u32 = 65_536;
/// Most KV blocks of all engines that keep a record per block (24 bytes).
const KV_BLOCKS_MAX: u64 = 1 << 28;

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
        let admission = admission(flags.replay_concurrency)?;
        let end = flags.max_sim_time_seconds.map(|s| span("--max-sim-time-seconds", s)).transpose()?;
        let config = ReplayConfig {
            engines: engines(&args, workers)?,
            gpus_per_worker: u32::try_from(args.gpus()).unwrap_or(u32::MAX),
            admission,
            startup: span("--extra-engine-args: startup_time", args.startup_time.unwrap_or(0.0))?,
            end,
            sla: flags.sla.check()?,
            records: flags.output.report_jsonl.is_some(),
            kv_eviction_policy: args.eviction_name(),
            reasoning: args.reasoning,
            horizon: Horizon::Run,
        };
        if flags.check_determinism && flags.workload.is_pipe() {
            return Err(Failure::input("--check-determinism: reads the trace twice, so it needs a file and no pipe"));
        }
        let block_size = BlockSize { trace: args.block_size, synthetic: args.block_size };
        let workload = flags.workload.open(block_size, config.admission, printer, refused)?;
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

/// The block size is the one option of a workload that is no flag of its own here.
fn refused(error: WorkloadError) -> Failure {
    match error {
        WorkloadError::Option(error) if error.name == "block_size" => {
            Failure::input(format_args!("--extra-engine-args: {error}"))
        }
        error => error.into(),
    }
}
