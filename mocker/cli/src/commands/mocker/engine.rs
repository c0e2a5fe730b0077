//! From flags and `--extra-engine-args` to the engine's arguments.

use std::path::Path;

use dynosim_engine::EngineArgs;
use serde_json::{Map, Value, json};

use super::flags::{EngineFlags, Flags, Mode};
use crate::failure::Failure;

/// Flat names of arguments and the flags that give them.
const FLAGS: [(&str, &str); 32] = [
    ("sglang.schedule_policy", "--sglang-schedule-policy"),
    ("sglang.page_size", "--sglang-page-size"),
    ("sglang.max_prefill_tokens", "--sglang-max-prefill-tokens"),
    ("sglang.chunked_prefill_size", "--sglang-chunked-prefill-size"),
    ("sglang.clip_max_new_tokens", "--sglang-clip-max-new-tokens"),
    ("sglang.schedule_conservativeness", "--sglang-schedule-conservativeness"),
    ("trtllm.capacity_scheduler_policy", "--trtllm-capacity-scheduler-policy"),
    ("sglang", "--sglang-*"),
    ("trtllm", "--trtllm-capacity-scheduler-policy"),
    ("engine_type", "--engine-type"),
    ("num_gpu_blocks", "--num-gpu-blocks-override"),
    ("block_size", "--block-size"),
    ("max_model_len", "--max-model-len"),
    ("max_num_seqs", "--max-num-seqs"),
    ("max_num_batched_tokens", "--max-num-batched-tokens"),
    ("enable_prefix_caching", "--no-enable-prefix-caching"),
    ("enable_chunked_prefill", "--no-enable-chunked-prefill"),
    ("preemption_mode", "--preemption-mode"),
    ("decode_speedup_ratio", "--decode-speedup-ratio"),
    ("speedup_ratio", "--speedup-ratio"),
    ("dp_size", "--data-parallel-size"),
    ("startup_time", "--startup-time"),
    ("planner_profile_data", "--planner-profile-data"),
    ("reasoning", "--reasoning"),
    ("response_replay_trace_path", "--response-replay-trace-path"),
    ("aic_nextn_accept_rates", "--ais-nextn-accept-rates"),
    ("aic_nextn", "--ais-nextn"),
    ("aic_mtp_seed", "--ais-mtp-seed"),
    ("kv_transfer_bandwidth", "--kv-transfer-bandwidth"),
    ("kv_transfer_timing_mode", "--kv-transfer-timing-mode"),
    ("kv_bytes_per_token", "--kv-bytes-per-token"),
    ("worker_type", "--disaggregation-mode"),
];
/// Names in the nested form that stand outside its `engine` object.
const NESTED_TOP: [&str; 3] = ["dp_size", "tensor_parallel_size", "startup_time"];
const NESTED_DYNAMO: [&str; 3] = ["enable_local_indexer", "reasoning", "response_replay_trace_path"];
/// Different names of one thing, or different things of which one is wanted: what the JSON says wins.
const RIVALS: [(&str, &[&str]); 4] = [
    ("worker_type", &["is_prefill", "is_decode"]),
    ("kv_bytes_per_token", &["kv_transfer_bytes_per_token"]),
    ("planner_profile_data", &["timing_model"]),
    ("engine_type", &["backend"]),
];

/// The engine's arguments, and what the user gave.
pub(crate) fn args(flags: &Flags, mode: Option<Mode>) -> Result<EngineArgs, Failure> {
    let given = flat(flags, mode)?;
    let Some(extra) = &flags.extra_engine_args else {
        return EngineArgs::from_value(&Value::Object(given)).map_err(|error| by_flag(&error.to_string()));
    };
    let text = read(extra)?;
    let prefix = |error: &dyn std::fmt::Display| Failure::input(format_args!("--extra-engine-args: {error}"));
    // By itself first: what is wrong there is not the flags' fault.
    EngineArgs::from_json(&text).map_err(|error| prefix(&error))?;
    let mut json: Map<String, Value> = serde_json::from_str(&text).map_err(|error| prefix(&error))?;
    fill(&mut json, given);
    EngineArgs::from_value(&Value::Object(json)).map_err(|error| prefix(&error))
}

fn read(extra: &str) -> Result<String, Failure> {
    if extra.trim_start().starts_with('{') {
        return Ok(extra.to_owned());
    }
    std::fs::read_to_string(Path::new(extra)).map_err(|error| {
        Failure::input(format_args!("--extra-engine-args: `{extra}` is no JSON object and cannot be read: {error}"))
    })
}

/// Adds what the flags say and the JSON does not.
fn fill(json: &mut Map<String, Value>, given: Map<String, Value>) {
    let nested = ["engine", "dynamo"].iter().any(|key| json.contains_key(*key));
    for (name, value) in given {
        let place = match &*name {
            name if !nested || NESTED_TOP.contains(&name) => Some(&mut *json),
            name if NESTED_DYNAMO.contains(&name) => object(json, "dynamo"),
            _ => object(json, "engine"),
        };
        let Some(place) = place else { continue };
        let rivals = RIVALS.iter().find(|(rival, _)| *rival == name).map_or(&[][..], |(_, rivals)| rivals);
        if rivals.iter().any(|rival| place.contains_key(*rival)) {
            continue;
        }
        let name = if nested && name == "engine_type" { "backend".to_owned() } else { name };
        match (place.get_mut(&name), value) {
            (None, value) => drop(place.insert(name, value)),
            (Some(Value::Object(there)), Value::Object(more)) => {
                for (key, value) in more {
                    there.entry(key).or_insert(value);
                }
            }
            (Some(_), _) => {}
        }
    }
}

fn object<'a>(json: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    json.entry(name).or_insert_with(|| json!({})).as_object_mut()
}

/// The flags that were given, in the flat form.
fn flat(flags: &Flags, mode: Option<Mode>) -> Result<Map<String, Value>, Failure> {
    let EngineFlags {
        engine_type,
        num_gpu_blocks_override,
        block_size,
        max_model_len,
        max_num_seqs,
        max_num_batched_tokens,
        enable_prefix_caching: _,
        no_enable_prefix_caching,
        enable_chunked_prefill: _,
        no_enable_chunked_prefill,
        preemption_mode,
        speedup_ratio,
        decode_speedup_ratio,
        data_parallel_size,
        startup_time,
        planner_profile_data,
        reasoning,
        response_replay_trace_path,
        ais_nextn,
        ais_nextn_accept_rates,
        ais_mtp_seed,
        trtllm_capacity_scheduler_policy,
        ..
    } = &flags.engine;
    let transfer = &flags.transfer;
    let number = |value: &Option<u64>| value.map(Value::from);
    let real = |flag: &str, value: &Option<f64>| real(flag, *value);
    let text = |value: &Option<String>| value.clone().map(Value::from);
    let path = |value: &Option<std::path::PathBuf>| value.as_ref().map(|path| json!(path));
    let off = |switch: bool| switch.then_some(Value::Bool(false));
    let reasoning = reasoning.as_deref().map(|text| json_flag("--reasoning", text)).transpose()?;
    let trtllm = trtllm_capacity_scheduler_policy.as_ref().map(|policy| json!({"capacity_scheduler_policy": policy}));
    let values = [
        ("engine_type", text(engine_type)),
        ("num_gpu_blocks", number(num_gpu_blocks_override)),
        ("block_size", number(block_size)),
        ("max_model_len", number(max_model_len)),
        ("max_num_seqs", number(max_num_seqs)),
        ("max_num_batched_tokens", number(max_num_batched_tokens)),
        ("enable_prefix_caching", off(*no_enable_prefix_caching)),
        ("enable_chunked_prefill", off(*no_enable_chunked_prefill)),
        ("preemption_mode", text(preemption_mode)),
        ("speedup_ratio", real("--speedup-ratio", speedup_ratio)?),
        ("decode_speedup_ratio", real("--decode-speedup-ratio", decode_speedup_ratio)?),
        ("dp_size", number(data_parallel_size)),
        ("startup_time", real("--startup-time", startup_time)?),
        ("planner_profile_data", path(planner_profile_data)),
        ("reasoning", reasoning),
        ("response_replay_trace_path", path(response_replay_trace_path)),
        ("sglang", sglang(&flags.engine)?),
        ("trtllm", trtllm),
        ("aic_nextn", number(ais_nextn)),
        ("aic_nextn_accept_rates", text(ais_nextn_accept_rates)),
        ("aic_mtp_seed", number(ais_mtp_seed)),
        ("kv_transfer_bandwidth", real("--kv-transfer-bandwidth", &transfer.kv_transfer_bandwidth)?),
        ("kv_transfer_timing_mode", text(&transfer.kv_transfer_timing_mode)),
        ("kv_bytes_per_token", number(&transfer.kv_bytes_per_token)),
        ("worker_type", mode.map(|mode| json!(worker_type(mode)))),
        // On with a live worker unless the JSON switches it off (as published).
        ("enable_local_indexer", Some(Value::Bool(true))),
    ];
    Ok(values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

fn worker_type(mode: Mode) -> &'static str {
    match mode {
        Mode::Agg => "aggregated",
        Mode::Prefill => "prefill",
        Mode::Decode => "decode",
    }
}

fn sglang(flags: &EngineFlags) -> Result<Option<Value>, Failure> {
    let conservativeness = "--sglang-schedule-conservativeness";
    let values = [
        // The deprecated name, of which the user was told.
        ("schedule_policy", flags.sglang_schedule_policy.clone().map(Value::from)),
        ("page_size", flags.sglang_page_size.map(Value::from)),
        ("max_prefill_tokens", flags.sglang_max_prefill_tokens.map(Value::from)),
        ("chunked_prefill_size", flags.sglang_chunked_prefill_size.map(Value::from)),
        ("clip_max_new_tokens", flags.sglang_clip_max_new_tokens.map(Value::from)),
        ("schedule_conservativeness", real(conservativeness, flags.sglang_schedule_conservativeness)?),
    ];
    let object: Map<_, _> = values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    Ok((!object.is_empty()).then_some(Value::Object(object)))
}

/// JSON has no infinities, so a flag must not have one.
fn real(flag: &str, value: Option<f64>) -> Result<Option<Value>, Failure> {
    let Some(value) = value else { return Ok(None) };
    match serde_json::Number::from_f64(value) {
        Some(number) => Ok(Some(Value::Number(number))),
        None => Err(Failure::input(format_args!("{flag}: {value} is out of range (allowed: a finite number)"))),
    }
}

fn json_flag(flag: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::input(format_args!("{flag}: `{text}` is no JSON: {error}")))
}

/// An error about arguments in terms of the flags that gave them.
fn by_flag(error: &str) -> Failure {
    let message = FLAGS.iter().fold(error.to_owned(), |message, (name, flag)| {
        message.replace(&format!("`{name}`"), &format!("`{flag}`")).replace(&format!("`{name}."), &format!("`{flag}."))
    });
    Failure::input(message)
}
