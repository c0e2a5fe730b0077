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

    /// Keep so many sessions in flight and ignore arrival times
    #[arg(long)]
    pub(crate) replay_concurrency: Option<u32>,
    /// Stop at this simulated time
    #[arg(long)]
    pub(crate) max_sim_time_seconds: Option<f64>,

    /// Settings of every worker's engine as a JSON object
    #[arg(long, value_name = "JSON", help_heading = "Engines")]
    pub(crate) extra_engine_args: Option<String>,
    /// Workers [default: 1]
    #[arg(long, help_heading = "Engines")]
    pub(crate) num_workers: Option<u32>,
    /// Settings of a prefill engine (comes later)
    #[arg(long, value_name = "JSON", help_heading = "Engines")]
    pub(crate) prefill_engine_args: Option<String>,
    /// Settings of a decode engine (comes later)
    #[arg(long, value_name = "JSON", help_heading = "Engines")]
    pub(crate) decode_engine_args: Option<String>,
    /// Prefill workers (comes later)
    #[arg(long, help_heading = "Engines")]
    pub(crate) num_prefill_workers: Option<u32>,
    /// Decode workers (comes later)
    #[arg(long, help_heading = "Engines")]
    pub(crate) num_decode_workers: Option<u32>,

    /// online comes later
    #[arg(long, value_enum, default_value_t = ReplayMode::Offline)]
    pub(crate) replay_mode: ReplayMode,
    /// kv_router comes later
    #[arg(long, value_enum, default_value_t = RouterMode::RoundRobin, help_heading = "Router")]
    pub(crate) router_mode: RouterMode,
    /// Settings of the KV router (comes later)
    #[arg(long, value_name = "JSON", help_heading = "Router")]
    pub(crate) router_config: Option<String>,
    /// Policies of the KV router (comes later)
    #[arg(long, value_name = "FILE", help_heading = "Router")]
    pub(crate) router_policy_config: Option<PathBuf>,

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
