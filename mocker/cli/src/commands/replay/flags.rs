//! Flags of `dynosim replay`: those of `python -m dynamo.replay` 1.3 and 1.4, and a few of ours.
#![allow(clippy::doc_markdown, reason = "doc comments are help texts here")]

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dynosim_workload::TraceFormat;

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
    /// Trace file, `-` for standard input
    #[arg(value_name = "TRACE_FILE", help_heading = "Workload: a trace")]
    pub(crate) trace_files: Vec<PathBuf>,
    /// mooncake or azure; mooncake-delta, agentic_mooncake, applied_compute_agentic and dynamo come later
    #[arg(long, default_value_t, help_heading = "Workload: a trace")]
    pub(crate) trace_format: TraceFormat,
    /// Tokens per hash id of the trace [default: 512]
    #[arg(long, help_heading = "Workload: a trace")]
    pub(crate) trace_block_size: Option<u32>,
    /// Divides all arrival gaps and delays of the trace
    #[arg(long, default_value_t = 1.0, help_heading = "Workload: a trace")]
    pub(crate) arrival_speedup_ratio: f64,
    /// Cut prompts that are longer than their hash ids cover, instead of refusing the trace
    #[arg(long, help_heading = "Workload: a trace")]
    pub(crate) lenient: bool,
    /// For applied_compute_agentic: share of the first prompt that is shared (comes later)
    #[arg(long, help_heading = "Workload: a trace")]
    pub(crate) trace_shared_prefix_ratio: Option<f64>,
    /// For applied_compute_agentic: groups that share (comes later)
    #[arg(long, help_heading = "Workload: a trace")]
    pub(crate) trace_num_prefix_groups: Option<u32>,

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

    /// Largest time to first token of a good request
    #[arg(long, help_heading = "Service level")]
    pub(crate) sla_ttft_ms: Option<f64>,
    /// Largest mean time per further token of a good request
    #[arg(long, help_heading = "Service level")]
    pub(crate) sla_itl_ms: Option<f64>,
    /// Largest latency of a good request
    #[arg(long, help_heading = "Service level")]
    pub(crate) sla_e2e_ms: Option<f64>,
    /// Exit with code 3 if a smaller share of the requests is good, 0 to 1
    #[arg(long, value_name = "SHARE", help_heading = "Service level")]
    pub(crate) fail_on_sla: Option<f64>,

    /// Report file, or a folder for it [default: dynamo_replay_report_TIME.json]
    #[arg(long, value_name = "PATH", help_heading = "Output")]
    pub(crate) report_json: Option<PathBuf>,
    /// File for one row per request
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) report_jsonl: Option<PathBuf>,
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
