//! Flags of `dynosim mocker`: those of `python -m dynamo.mocker` 1.3 to 1.6.
#![allow(clippy::doc_markdown, reason = "doc comments are help texts here")]

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::elsewhere::Elsewhere;
use crate::live::RuntimeFlags;

/// Part in the serving graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Prefill and decode
    Agg,
    /// Prefill only
    Prefill,
    /// Decode only
    Decode,
}

/// How KV is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum KvDtype {
    /// As the model is
    #[default]
    Auto,
    Bfloat16,
    Fp8,
    Fp8DsMla,
    #[value(name = "fp8_e4m3")]
    Fp8E4m3,
    #[value(name = "fp8_e5m2")]
    Fp8E5m2,
    Fp8Inc,
}

/// Serve a model with a simulated engine
#[derive(Clone, Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub(crate) struct Flags {
    /// Model folder, or any name: then a built-in byte-level model stands in
    #[arg(long, value_name = "PATH")]
    pub(crate) model_path: Option<String>,
    /// Name that clients use [default: the model path as given]
    #[arg(long, value_name = "NAME")]
    pub(crate) model_name: Option<String>,
    /// Endpoint to serve [default: dyn://NAMESPACE.backend.generate, with prefill NAMESPACE.prefill.generate]
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) endpoint: Option<String>,
    /// Part in the serving graph [default: agg]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) disaggregation_mode: Option<Mode>,
    /// Deprecated: --disaggregation-mode prefill
    #[arg(long, hide = true)]
    pub(crate) is_prefill_worker: bool,
    /// Deprecated: --disaggregation-mode decode
    #[arg(long, hide = true)]
    pub(crate) is_decode_worker: bool,
    /// Workers in this process [default: 1]
    #[arg(long, value_name = "COUNT")]
    pub(crate) num_workers: Option<u32>,
    /// Seconds between the starts of two workers; -1: 0 up to 32 workers, 0.1 up to 128, else 0.2 [default: 0]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) stagger_delay: Option<f64>,
    /// Settings of the engine as a JSON object or a file with one; wins over flags
    #[arg(long, value_name = "JSON|FILE", help_heading = "Engine")]
    pub(crate) extra_engine_args: Option<String>,
    #[command(flatten)]
    pub(crate) engine: EngineFlags,
    #[command(flatten)]
    pub(crate) transfer: TransferFlags,
    #[command(flatten)]
    pub(crate) ports: PortFlags,
    #[command(flatten)]
    pub(crate) runtime: RuntimeFlags,
    #[command(flatten)]
    pub(crate) elsewhere: Elsewhere,
}

/// Settings of the engine
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Engine")]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub(crate) struct EngineFlags {
    /// vllm, sglang or trtllm [default: vllm]
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine_type: Option<String>,
    /// KV blocks per rank [default: 16384]
    #[arg(long, value_name = "COUNT")]
    pub(crate) num_gpu_blocks_override: Option<u64>,
    /// Tokens per KV block [default: 64 with vllm, 1 with sglang, 32 with trtllm]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) block_size: Option<u64>,
    /// Prompt and output of a request together [default: not limited]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_model_len: Option<u64>,
    /// Requests that run at once [default: 256]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_num_seqs: Option<u64>,
    /// Tokens computed in a pass [default: 8192]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_num_batched_tokens: Option<u64>,
    /// Equal prefixes are computed once (the default)
    #[arg(long, overrides_with = "no_enable_prefix_caching")]
    pub(crate) enable_prefix_caching: bool,
    /// Every prompt is computed
    #[arg(long)]
    pub(crate) no_enable_prefix_caching: bool,
    /// A prompt may be computed over several passes (the default)
    #[arg(long, overrides_with = "no_enable_chunked_prefill")]
    pub(crate) enable_chunked_prefill: bool,
    /// A prompt is computed in one pass
    #[arg(long)]
    pub(crate) no_enable_chunked_prefill: bool,
    /// Whom vLLM preempts: lifo or fifo [default: lifo]
    #[arg(long, value_name = "MODE")]
    pub(crate) preemption_mode: Option<String>,
    /// Divides all durations; 0: no delays [default: 1]
    #[arg(long, value_name = "RATIO")]
    pub(crate) speedup_ratio: Option<f64>,
    /// Divides decode durations once more [default: 1]
    #[arg(long, value_name = "RATIO")]
    pub(crate) decode_speedup_ratio: Option<f64>,
    /// Ranks, each with a scheduler and a KV cache [default: 1]
    #[arg(long, value_name = "COUNT")]
    pub(crate) data_parallel_size: Option<u64>,
    /// Seconds from start to ready [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) startup_time: Option<f64>,
    /// Profile with measured durations: an .npz file or a profiler's folder
    #[arg(long, value_name = "PATH")]
    pub(crate) planner_profile_data: Option<PathBuf>,
    /// Reasoning spans in outputs: {"start_thinking_token_id", "end_thinking_token_id", "thinking_ratio"}
    #[arg(long, value_name = "JSON")]
    pub(crate) reasoning: Option<String>,
    /// Trace whose output_token_ids are given again to requests annotated output_replay_id:KEY
    #[arg(long, value_name = "FILE")]
    pub(crate) response_replay_trace_path: Option<PathBuf>,
    /// Order of SGLang's queue: fifo or lpm [default: fifo]
    #[arg(long, value_name = "POLICY")]
    pub(crate) sglang_schedule_policy: Option<String>,
    /// Deprecated: --block-size
    #[arg(long, hide = true)]
    pub(crate) sglang_page_size: Option<u64>,
    /// Prompt tokens in a pass of SGLang [default: 16384]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) sglang_max_prefill_tokens: Option<u64>,
    /// Prompt tokens of one request in a pass of SGLang [default: 8192]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) sglang_chunked_prefill_size: Option<u64>,
    /// Output tokens that SGLang's admission reserves at most [default: 4096]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) sglang_clip_max_new_tokens: Option<u64>,
    /// How much of the output SGLang's admission reserves [default: 1]
    #[arg(long, value_name = "FACTOR")]
    pub(crate) sglang_schedule_conservativeness: Option<f64>,
    /// guaranteed_no_evict, the only one [default: guaranteed_no_evict]
    #[arg(long, value_name = "POLICY")]
    pub(crate) trtllm_capacity_scheduler_policy: Option<String>,
    /// Drafts per step of speculative decoding, 1 to 5
    #[arg(long, alias = "aic-nextn", value_name = "COUNT")]
    pub(crate) ais_nextn: Option<u64>,
    /// Conditional accept rates of drafts, between commas
    #[arg(long, alias = "aic-nextn-accept-rates", value_name = "RATES")]
    pub(crate) ais_nextn_accept_rates: Option<String>,
    /// Seeds speculative decoding [default: 42]
    #[arg(long, alias = "aic-mtp-seed", value_name = "SEED")]
    pub(crate) ais_mtp_seed: Option<u64>,
}

/// From prefill to decode
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "From prefill to decode")]
pub(crate) struct TransferFlags {
    /// Ports where prefill workers meet decode workers, one per worker for all its ranks
    #[arg(long, value_name = "PORTS")]
    pub(crate) bootstrap_ports: Option<String>,
    /// 10^9 bytes per second [default: no delay]
    #[arg(long, value_name = "GB/S")]
    pub(crate) kv_transfer_bandwidth: Option<f64>,
    /// full_prompt or destination_missing [default: full_prompt]
    #[arg(long, value_name = "MODE")]
    pub(crate) kv_transfer_timing_mode: Option<String>,
    /// How KV is stored, for its bytes per token [default: auto]
    #[arg(long, value_enum, value_name = "DTYPE")]
    pub(crate) kv_cache_dtype: Option<KvDtype>,
    /// KV bytes per token [default: from the model's configuration]
    #[arg(long, value_name = "BYTES")]
    pub(crate) kv_bytes_per_token: Option<u64>,
}

/// KV events in vLLM's own form
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "KV events in vLLM's own form")]
pub(crate) struct PortFlags {
    /// Base ports of their PUB sockets, one per worker; each rank takes the next one
    #[arg(long, value_name = "PORTS")]
    pub(crate) zmq_kv_events_ports: Option<String>,
    /// Base ports where they can be had again, one per worker; each rank takes the next one
    #[arg(long, value_name = "PORTS")]
    pub(crate) zmq_replay_ports: Option<String>,
}
