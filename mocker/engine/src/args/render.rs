//! The settings as flat JSON.

use super::check::has_effect;
use super::{EngineArgs, EngineType, TimingSettings};
use crate::request::Role;
use crate::sglang::QueuePolicy;
use crate::timing::Linear;
use crate::transfer::TransferMode;
use crate::vllm::{Policy, Preemption};
use serde_json::{Map, Value, json};

/// Everything that has an effect; absent options are left out.
pub(super) fn to_value(args: &EngineArgs) -> Value {
    let mut object = Map::new();
    for group in [scheduling(args), vllm(args), timing(args), worker(args), engine_objects(args)] {
        for (key, value) in group {
            let no_limit = matches!(key, "max_num_seqs" | "max_num_batched_tokens");
            if (no_limit || !value.is_null()) && has_effect(args, key) {
                object.insert(key.to_string(), value);
            }
        }
    }
    // Keys come out sorted whichever map serde_json was built with.
    object.sort_keys();
    Value::Object(object)
}

type Entries = Vec<(&'static str, Value)>;

fn scheduling(args: &EngineArgs) -> Entries {
    let role = match args.worker_type {
        Role::Aggregated => "aggregated",
        Role::Prefill => "prefill",
        Role::Decode => "decode",
    };
    vec![
        ("engine_type", json!(args.engine_type.name())),
        ("num_gpu_blocks", json!(args.num_gpu_blocks)),
        ("block_size", json!(args.block_size)),
        ("max_num_seqs", json!(args.max_num_seqs)),
        ("max_num_batched_tokens", json!(args.max_num_batched_tokens)),
        ("max_model_len", json!(args.max_model_len)),
        ("enable_prefix_caching", json!(args.enable_prefix_caching)),
        ("enable_chunked_prefill", json!(args.enable_chunked_prefill)),
        ("eviction_policy", json!(args.eviction_policy.name())),
        ("worker_type", json!(role)),
        ("emit_kv_events", json!(args.emit_kv_events)),
    ]
}

fn vllm(args: &EngineArgs) -> Entries {
    let preemption = match args.preemption_mode {
        Preemption::Lifo => "lifo",
        Preemption::Fifo => "fifo",
    };
    let policy = match args.scheduling_policy {
        Policy::Fcfs => "fcfs",
        Policy::Priority => "priority",
    };
    vec![
        ("preemption_mode", json!(preemption)),
        ("scheduling_policy", json!(policy)),
        ("long_prefill_token_threshold", json!(args.long_prefill_token_threshold)),
        ("scheduler_reserve_full_isl", json!(args.scheduler_reserve_full_isl)),
        ("watermark", json!(args.watermark)),
        ("prefill_schedule_interval", json!(args.prefill_schedule_interval)),
        ("async_scheduling", json!(args.async_scheduling)),
    ]
}

fn timing(args: &EngineArgs) -> Entries {
    let mut entries = vec![
        ("speedup_ratio", json!(args.speedup_ratio)),
        ("decode_speedup_ratio", json!(args.decode_speedup_ratio)),
        ("aic_nextn", json!(args.mtp.as_ref().map(|mtp| mtp.nextn))),
        ("aic_mtp_seed", json!(args.mtp_seed)),
    ];
    entries.push(match &args.timing {
        TimingSettings::Polynomial => ("timing_model", json!({"type": "polynomial"})),
        TimingSettings::Fixed(fixed) => {
            let (prefill_ms, decode_ms) = (fixed.prefill_ms, fixed.decode_ms);
            ("timing_model", json!({"type": "fixed", "prefill_ms": prefill_ms, "decode_ms": decode_ms}))
        }
        TimingSettings::Linear(linear) => ("timing_model", linear_object(linear)),
        TimingSettings::Profile(path) => ("planner_profile_data", json!(path.to_string_lossy())),
    });
    if let Some(mtp) = &args.mtp {
        let rates: Vec<String> = mtp.accept_rates.iter().map(f64::to_string).collect();
        entries.push(("aic_nextn_accept_rates", json!(rates.join(","))));
    }
    entries
}

fn linear_object(linear: &Linear) -> Value {
    json!({
        "type": "linear",
        "pass_ms": linear.pass_ms,
        "weights_ms": linear.weights_ms,
        "prefill_ms_per_token": linear.prefill_ms_per_token,
        "attention_ms_per_token_pair": linear.attention_ms_per_token_pair,
        "decode_ms_per_request": linear.decode_ms_per_request,
        "decode_ms_per_kv_token": linear.decode_ms_per_kv_token,
    })
}

fn worker(args: &EngineArgs) -> Entries {
    let mode = match args.kv_transfer_timing_mode {
        TransferMode::FullPrompt => "full_prompt",
        TransferMode::DestinationMissing => "destination_missing",
    };
    let trace = args.response_replay_trace_path.as_ref().map(|path| path.to_string_lossy());
    vec![
        ("dp_size", json!(args.dp_size)),
        ("tensor_parallel_size", json!(args.tensor_parallel_size)),
        ("startup_time", json!(args.startup_time)),
        ("kv_bytes_per_token", json!(args.kv_bytes_per_token)),
        ("kv_transfer_bandwidth", json!(args.kv_transfer_bandwidth)),
        ("kv_transfer_timing_mode", json!(mode)),
        ("response_replay_trace_path", json!(trace)),
        ("enable_local_indexer", json!(args.enable_local_indexer)),
        ("bootstrap_port", json!(args.bootstrap_port)),
        ("handoff_session_timeout_ms", json!(args.handoff_session_timeout_ms)),
        ("zmq_kv_events_port", json!(args.zmq_kv_events_port)),
        ("zmq_replay_port", json!(args.zmq_replay_port)),
        ("router_queue_policy", json!(args.router_queue_policy)),
    ]
}

fn engine_objects(args: &EngineArgs) -> Entries {
    let mut entries = Vec::new();
    if let Some(reasoning) = &args.reasoning {
        let object = json!({
            "start_thinking_token_id": reasoning.start_thinking_token_id,
            "end_thinking_token_id": reasoning.end_thinking_token_id,
            "thinking_ratio": reasoning.thinking_ratio,
        });
        entries.push(("reasoning", object));
    }
    match args.engine_type {
        EngineType::Vllm => {}
        EngineType::Sglang => {
            let sglang = &args.sglang;
            let policy = match sglang.schedule_policy {
                QueuePolicy::Fcfs => "fifo",
                QueuePolicy::Lpm => "lpm",
                QueuePolicy::DfsWeight => "dfs-weight",
            };
            let object = json!({
                "schedule_policy": policy,
                "max_prefill_tokens": sglang.max_prefill_tokens,
                "chunked_prefill_size": sglang.chunked_prefill_size,
                "clip_max_new_tokens": sglang.clip_max_new_tokens,
                "schedule_conservativeness": sglang.schedule_conservativeness,
            });
            entries.push(("sglang", object));
        }
        EngineType::Trtllm => {
            entries.push(("trtllm", json!({"capacity_scheduler_policy": "guaranteed_no_evict"})));
        }
    }
    entries
}
