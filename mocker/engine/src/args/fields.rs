//! Every argument: its name and how it is read.

use super::input::Input;
use super::read::Draft;
use super::{ArgsError, EngineType, SglangPolicy, TimingSettings, defaults, objects};
use crate::kv::Eviction;
use crate::request::Role;
use crate::transfer::TransferMode;
use crate::vllm::{Policy, Preemption};
use serde_json::Value;

/// One argument of an object.
pub(super) struct Field {
    /// The key.
    pub(super) name: &'static str,
    /// The flat name that [`super::EngineArgs::given`] records.
    pub(super) flat: &'static str,
    pub(super) action: Action,
    /// Null is a value of its own ("no limit"), not just nothing.
    pub(super) null_counts: bool,
}

/// What becomes of a value.
pub(super) enum Action {
    /// It is read.
    Set(fn(&mut Draft, &Input<'_>) -> Result<(), ArgsError>),
    /// It is refused unless it means "off": null, or this.
    Later { off: Off, feature: &'static str },
}

/// A value besides null that switches a feature off.
#[derive(Clone, Copy)]
pub(super) enum Off {
    Null,
    False,
    Zero,
    EmptyList,
}

impl Off {
    pub(super) fn holds(self, value: &Value) -> bool {
        value.is_null()
            || match self {
                Self::Null => false,
                Self::False => *value == Value::Bool(false),
                Self::Zero => value.as_f64() == Some(0.0),
                Self::EmptyList => value.as_array().is_some_and(Vec::is_empty),
            }
    }

    pub(super) fn allowed(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::False => "null or false",
            Self::Zero => "null or 0",
            Self::EmptyList => "null or []",
        }
    }
}

type Set = fn(&mut Draft, &Input<'_>) -> Result<(), ArgsError>;

const fn set(name: &'static str, set: Set) -> Field {
    Field { name, flat: name, action: Action::Set(set), null_counts: false }
}

const fn set_as(name: &'static str, flat: &'static str, set: Set) -> Field {
    Field { name, flat, action: Action::Set(set), null_counts: false }
}

const fn limit(name: &'static str, set: Set) -> Field {
    Field { name, flat: name, action: Action::Set(set), null_counts: true }
}

const fn later(name: &'static str, off: Off, feature: &'static str) -> Field {
    Field { name, flat: name, action: Action::Later { off, feature }, null_counts: false }
}

const TIERS: &str = "KV tiers beyond GPU memory are";
const DATABASE: &str = "performance databases are";
const CAPACITY: &str = "estimating the KV capacity from memory sizes is";
const GROUPS: &str = "KV cache layouts other than uniform blocks are";

/// Reads into a field of [`super::EngineArgs`].
macro_rules! into {
    ($field:ident, $input:ident => $read:expr) => {
        |draft, $input| {
            draft.args.$field = $read;
            Ok(())
        }
    };
}

const ENGINE_TYPES: &[(&str, EngineType)] =
    &[("vllm", EngineType::Vllm), ("sglang", EngineType::Sglang), ("trtllm", EngineType::Trtllm)];
const ROLES: &[(&str, Role)] =
    &[("aggregated", Role::Aggregated), ("prefill", Role::Prefill), ("decode", Role::Decode)];
const EVICTIONS: &[(&str, Eviction)] =
    &[("lineage", Eviction::Lineage), ("lru", Eviction::Lru), ("multi_lru", Eviction::MultiLru)];
const MODES: &[(&str, TransferMode)] =
    &[("full_prompt", TransferMode::FullPrompt), ("destination_missing", TransferMode::DestinationMissing)];
const PREEMPTIONS: &[(&str, Preemption)] = &[("lifo", Preemption::Lifo), ("fifo", Preemption::Fifo)];
const POLICIES: &[(&str, Policy)] = &[("fcfs", Policy::Fcfs), ("priority", Policy::Priority)];
const SGLANG_POLICIES: &[(&str, SglangPolicy)] = &[
    ("fifo", SglangPolicy::Fifo),
    ("fcfs", SglangPolicy::Fifo),
    ("lpm", SglangPolicy::Lpm),
    ("dfs-weight", SglangPolicy::DfsWeight),
];

/// At the top of the flat form and in `engine` of the nested one.
pub(super) const ENGINE: &[Field] = &[
    set("num_gpu_blocks", into!(num_gpu_blocks, v => v.u32(1)?)),
    set("block_size", |draft, v| {
        draft.block_size = Some(v.u32(1)?);
        Ok(())
    }),
    limit("max_num_seqs", into!(max_num_seqs, v => v.optional(|v| v.u32(1))?)),
    limit("max_num_batched_tokens", into!(max_num_batched_tokens, v => v.optional(|v| v.u32(1))?)),
    set("max_model_len", into!(max_model_len, v => v.optional(|v| v.u32(1))?)),
    set("enable_prefix_caching", into!(enable_prefix_caching, v => v.bool()?)),
    set("enable_chunked_prefill", into!(enable_chunked_prefill, v => v.bool()?)),
    set("speedup_ratio", into!(speedup_ratio, v => v.not_negative()?)),
    set("decode_speedup_ratio", into!(decode_speedup_ratio, v => v.not_negative()?)),
    set("worker_type", into!(worker_type, v => v.choice(ROLES)?)),
    set("planner_profile_data", |draft, v| {
        if let Some(path) = v.optional(Input::file)? {
            draft.profile = Some(TimingSettings::Profile(path));
        }
        Ok(())
    }),
    set("timing_model", into!(timing, v => v.optional(objects::timing_model)?.unwrap_or_default())),
    set("aic_nextn", |draft, v| {
        draft.nextn = v.optional(|v| v.u32_in(1, crate::mtp::NEXTN_MAX as u32))?;
        Ok(())
    }),
    set("aic_nextn_accept_rates", |draft, v| {
        draft.accept_rates = v.optional(objects::accept_rates)?;
        Ok(())
    }),
    set("aic_mtp_seed", into!(mtp_seed, v => v.u64(0)?)),
    set("preemption_mode", into!(preemption_mode, v => v.choice(PREEMPTIONS)?)),
    set("eviction_policy", into!(eviction_policy, v => v.choice(EVICTIONS)?)),
    set("scheduling_policy", into!(scheduling_policy, v => v.choice(POLICIES)?)),
    set("long_prefill_token_threshold", into!(long_prefill_token_threshold, v => v.u32(0)?)),
    set("scheduler_reserve_full_isl", into!(scheduler_reserve_full_isl, v => v.bool()?)),
    set("watermark", into!(watermark, v => v.share()?)),
    set("prefill_schedule_interval", into!(prefill_schedule_interval, v => v.u32(1)?)),
    set("async_scheduling", into!(async_scheduling, v => v.bool()?)),
    set("emit_kv_events", into!(emit_kv_events, v => v.bool()?)),
    set("kv_bytes_per_token", into!(kv_bytes_per_token, v => v.optional(|v| v.u64(0))?)),
    set("kv_transfer_bandwidth", into!(kv_transfer_bandwidth, v => v.optional(Input::not_negative)?)),
    set("kv_transfer_timing_mode", into!(kv_transfer_timing_mode, v => v.choice(MODES)?)),
    set("sglang", objects::sglang),
    set("trtllm", objects::trtllm),
];

/// In `sglang`. Null stands for the default.
pub(super) const SGLANG: &[Field] = &[
    set_as("schedule_policy", "sglang.schedule_policy", |draft, v| {
        draft.args.sglang.schedule_policy = v.optional(|v| v.choice(SGLANG_POLICIES))?.unwrap_or_default();
        Ok(())
    }),
    set_as("page_size", "sglang.page_size", |draft, v| {
        draft.page_size = v.optional(|v| v.u32(1))?;
        Ok(())
    }),
    set_as("max_prefill_tokens", "sglang.max_prefill_tokens", |draft, v| {
        draft.args.sglang.max_prefill_tokens = v.optional(|v| v.u32(1))?.unwrap_or(defaults::SGLANG_MAX_PREFILL_TOKENS);
        Ok(())
    }),
    set_as("chunked_prefill_size", "sglang.chunked_prefill_size", |draft, v| {
        draft.args.sglang.chunked_prefill_size =
            v.optional(|v| v.u32(1))?.unwrap_or(defaults::SGLANG_CHUNKED_PREFILL_SIZE);
        Ok(())
    }),
    set_as("clip_max_new_tokens", "sglang.clip_max_new_tokens", |draft, v| {
        draft.args.sglang.clip_max_new_tokens =
            v.optional(|v| v.u32(1))?.unwrap_or(defaults::SGLANG_CLIP_MAX_NEW_TOKENS);
        Ok(())
    }),
    set_as("schedule_conservativeness", "sglang.schedule_conservativeness", |draft, v| {
        draft.args.sglang.schedule_conservativeness =
            v.optional(Input::not_negative)?.unwrap_or(defaults::SGLANG_SCHEDULE_CONSERVATIVENESS);
        Ok(())
    }),
];

/// In `trtllm`.
pub(super) const TRTLLM: &[Field] =
    &[set_as("capacity_scheduler_policy", "trtllm.capacity_scheduler_policy", |_, v| {
        v.optional(|v| v.choice(&[("guaranteed_no_evict", ())])).map(|_| ())
    })];

/// At the top of the flat form and of the nested one.
pub(super) const WORKER: &[Field] = &[
    set("dp_size", into!(dp_size, v => v.u32(1)?)),
    set("tensor_parallel_size", into!(tensor_parallel_size, v => v.u32(1)?)),
    set("startup_time", into!(startup_time, v => v.optional(Input::not_negative)?)),
    later("gpu_memory_utilization", Off::Null, CAPACITY),
    later("mem_fraction_static", Off::Null, CAPACITY),
    later("free_gpu_memory_fraction", Off::Null, CAPACITY),
];

/// At the top of the flat form and in `dynamo` of the nested one.
pub(super) const DYNAMO: &[Field] = &[
    set("enable_local_indexer", into!(enable_local_indexer, v => v.bool()?)),
    set("bootstrap_port", into!(bootstrap_port, v => v.optional(|v| v.u16(1))?)),
    set("handoff_session_timeout_ms", into!(handoff_session_timeout_ms, v => v.u64(1)?)),
    set("reasoning", into!(reasoning, v => v.optional(objects::reasoning)?)),
    set("response_replay_trace_path", into!(response_replay_trace_path, v => v.optional(Input::file)?)),
    set("zmq_kv_events_port", into!(zmq_kv_events_port, v => v.optional(|v| v.u16(1))?)),
    set("zmq_replay_port", into!(zmq_replay_port, v => v.optional(|v| v.u16(1))?)),
    set("router_queue_policy", into!(router_queue_policy, v => v.optional(Input::text)?.map(str::to_string))),
];

/// Only in the flat form.
pub(super) const FLAT: &[Field] = &[
    set("engine_type", into!(engine_type, v => v.choice(ENGINE_TYPES)?)),
    set("is_prefill", |draft, v| {
        draft.is_prefill = v.bool()?;
        Ok(())
    }),
    set("is_decode", |draft, v| {
        draft.is_decode = v.bool()?;
        Ok(())
    }),
    // Written by older tools to say that a model object is attached; it never meant anything in JSON.
    set("has_perf_model", |_, _| Ok(())),
    later("num_g2_blocks", Off::Zero, TIERS),
    later("num_g3_blocks", Off::Zero, TIERS),
    later("enable_g4_storage", Off::False, TIERS),
    later("offload_batch_size", Off::Null, TIERS),
    later("bandwidth_g1_to_g2_gbps", Off::Null, TIERS),
    later("bandwidth_g2_to_g1_gbps", Off::Null, TIERS),
    later("bandwidth_g2_to_g3_gbps", Off::Null, TIERS),
    later("bandwidth_g3_to_g2_gbps", Off::Null, TIERS),
    later("bandwidth_g2_to_g4_gbps", Off::Null, TIERS),
    later("bandwidth_g4_to_g2_gbps", Off::Null, TIERS),
    later("aic_backend", Off::Null, DATABASE),
    later("aic_system", Off::Null, DATABASE),
    later("aic_backend_version", Off::Null, DATABASE),
    later("aic_model_path", Off::Null, DATABASE),
    later("aic_tp_size", Off::Null, DATABASE),
    later("aic_moe_tp_size", Off::Null, DATABASE),
    later("aic_moe_ep_size", Off::Null, DATABASE),
    later("aic_attention_dp_size", Off::Null, DATABASE),
    later("aic_gemm_dtype", Off::Null, DATABASE),
    later("aic_moe_dtype", Off::Null, DATABASE),
    later("aic_fmha_dtype", Off::Null, DATABASE),
    later("aic_kv_cache_dtype", Off::Null, DATABASE),
    later("aic_comm_dtype", Off::Null, DATABASE),
];

/// Only in `engine` of the nested form.
pub(super) const NESTED_ENGINE: &[Field] = &[
    set_as("backend", "engine_type", into!(engine_type, v => v.choice(ENGINE_TYPES)?)),
    set_as(
        "kv_transfer_bytes_per_token",
        "kv_bytes_per_token",
        into!(kv_bytes_per_token, v => v.optional(|v| v.u64(0))?),
    ),
    later("prefill_decode_interval", Off::Zero, "spacing prefill passes apart with SGLang is"),
    later("emit_kv_token_ids", Off::False, "token ids in KV events are"),
    later("kv_cache_bytes_per_token", Off::Null, CAPACITY),
    later("kv_cache_capacity_bytes", Off::Null, CAPACITY),
    later("kv_cache_groups", Off::EmptyList, GROUPS),
    later("prefix_match_unit", Off::Null, GROUPS),
    later("state_cache", Off::Null, GROUPS),
    later("native_host_offload", Off::Null, TIERS),
    later("g3_offload", Off::Null, TIERS),
];

/// Only at the top of the nested form.
pub(super) const NESTED_TOP: &[Field] = &[
    // Says where the block count came from, in configurations that a tool has completed.
    set("num_gpu_blocks_is_explicit", |_, v| v.bool().map(|_| ())),
    later("cuda_graph_reserved_bytes", Off::Null, CAPACITY),
    set("engine", |draft, v| super::read::apply(draft, v.object()?, "engine.", &[ENGINE, NESTED_ENGINE])),
    set("dynamo", |draft, v| super::read::apply(draft, v.object()?, "dynamo.", &[DYNAMO])),
];
