//! Flags of `dynosim replay`: those of `python -m dynamo.replay` 1.3 and 1.4, and a few of ours.
#![allow(clippy::doc_markdown, reason = "doc comments are help texts here")]

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::commands::run::{OutputFlags, SlaFlags, WorkloadFlags};

/// Where requests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ReplayMode {
    /// In virtual time.
    Offline,
    /// Through live workers.
    Online,
}

/// How requests are spread over workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum RouterMode {
    /// In turn.
    RoundRobin,
    /// By cached prefixes and load.
    KvRouter,
}

/// Replays a trace, or a synthetic workload, on simulated engines and reports latencies and throughput
#[derive(Debug, Args)]
#[command(after_help = "Either trace files, or all of --input-tokens, --output-tokens, and --request-count")]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub(crate) struct Flags {
    /// What is replayed
    #[command(flatten)]
    pub(crate) workload: WorkloadFlags,

    /// Manifest of the graph that is simulated: its frontends' router, prefill and decode workers, replicas, engines
    #[arg(long, short, value_name = "MANIFEST", help_heading = "Engines")]
    pub(crate) file: Option<PathBuf>,
    /// Keep so many sessions in flight and ignore arrival times
    #[arg(long)]
    pub(crate) replay_concurrency: Option<u32>,
    /// Stop at this simulated time
    #[arg(long)]
    pub(crate) max_sim_time_seconds: Option<f64>,

    /// Settings of every worker's engine as a JSON object; its workers do prefill and decode
    #[arg(long, value_name = "JSON", help_heading = "Engines")]
    pub(crate) extra_engine_args: Option<String>,
    /// Workers [default: 1]
    #[arg(long, help_heading = "Engines")]
    pub(crate) num_workers: Option<u32>,
    /// Settings of every prefill worker's engine, "worker_type":"prefill" among them
    #[arg(long, value_name = "JSON", help_heading = "Engines")]
    pub(crate) prefill_engine_args: Option<String>,
    /// Settings of every decode worker's engine, "worker_type":"decode" among them
    #[arg(long, value_name = "JSON", help_heading = "Engines")]
    pub(crate) decode_engine_args: Option<String>,
    /// Prefill workers [default: 1]
    #[arg(long, help_heading = "Engines")]
    pub(crate) num_prefill_workers: Option<u32>,
    /// Decode workers [default: 1]
    #[arg(long, help_heading = "Engines")]
    pub(crate) num_decode_workers: Option<u32>,

    /// online comes later
    #[arg(long, value_enum, default_value_t = ReplayMode::Offline)]
    pub(crate) replay_mode: ReplayMode,
    /// How requests are spread over the workers of a pool [default: round_robin]
    #[arg(long, value_enum, help_heading = "Router")]
    pub(crate) router_mode: Option<RouterMode>,
    /// Settings of the KV router as a JSON object
    #[arg(long, value_name = "JSON", help_heading = "Router")]
    pub(crate) router_config: Option<String>,
    /// File with the classes of the KV router's queue
    #[arg(long, value_name = "FILE", help_heading = "Router")]
    pub(crate) router_policy_config: Option<PathBuf>,
    /// The KV router sees changes of KV caches so long after the pass that made them [default: 0]
    #[arg(long, value_name = "MS", help_heading = "Router")]
    pub(crate) kv_event_lag_ms: Option<f64>,
    /// Seeds the KV router's draws: among equal costs, and by temperature [default: 42]
    #[arg(long, value_name = "SEED", help_heading = "Router")]
    pub(crate) router_seed: Option<u64>,
    /// Print the cost of every worker for this request (its number in the input from 0, or its uuid) and why one won
    #[arg(long, value_name = "ID", help_heading = "Router")]
    pub(crate) explain_request: Option<String>,

    /// Settings of the planner (comes later)
    #[arg(long, value_name = "JSON_OR_FILE", help_heading = "Planner")]
    pub(crate) planner_config: Option<String>,
    /// Steps of the planner's bootstrap sweep (comes later)
    #[arg(long, help_heading = "Planner")]
    pub(crate) benchmark_granularity: Option<u32>,

    /// Performance model of the router (--aic-*; comes later)
    #[command(flatten)]
    pub(crate) aic: AicFlags,

    /// Limits of a good request
    #[command(flatten)]
    pub(crate) sla: SlaFlags,

    /// Report files
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    /// Run twice and compare a digest of all events
    #[arg(long, help_heading = "Output")]
    pub(crate) check_determinism: bool,
    /// Print errors only
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
}

/// Flags of the published performance model.
#[derive(Debug, Args)]
#[command(next_help_heading = "Performance model of the router (comes later)")]
pub(crate) struct AicFlags {
    #[arg(long, hide = true)]
    pub(crate) model_name: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_backend: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_system: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_backend_version: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_model_path: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_tp_size: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_moe_tp_size: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_moe_ep_size: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_attention_dp_size: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_gemm_dtype: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_moe_dtype: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_fmha_dtype: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_kv_cache_dtype: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_comm_dtype: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_nextn: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) aic_nextn_accept_rates: Option<String>,
}
