//! Refused engine arguments, each with the whole message.

use crate::args::EngineArgs;
use std::fmt::Write as _;

/// Text and message.
#[rustfmt::skip]
const BAD: &[(&str, &str)] = &[
    // No JSON object.
    ("", "engine arguments: EOF while parsing a value at line 1 column 0"),
    ("{", "engine arguments: EOF while parsing an object at line 1 column 1"),
    ("[1, 2]", "engine arguments are [1,2]; allowed: a JSON object"),
    ("null", "engine arguments are null; allowed: a JSON object"),
    ("{} {}", "engine arguments: trailing characters at line 1 column 4"),
    (r#"{"block_size": 64, "block_size": 64}"#, "engine arguments: `block_size` is given twice at line 1 column 31"),
    (r#"{"sglang": {"page_size": 1, "page_size": 1}}"#, "engine arguments: `sglang.page_size` is given twice at line 1 column 39"),
    (r#"{"speedup_ratio": NaN}"#, "engine arguments: expected value at line 1 column 19"),
    (r#"{"speedup_ratio": 1e999}"#, "engine arguments: number out of range at line 1 column 23"),
    // Unknown keys.
    (r#"{"blok_size": 64}"#, "`blok_size` is no engine argument; did you mean `block_size`?"),
    (r#"{"engine": {"num_gpu_block": 64}}"#, "`engine.num_gpu_block` is no engine argument; did you mean `engine.num_gpu_blocks`?"),
    (r#"{"dynamo": {"block_size": 64}}"#, "`dynamo.block_size` is no engine argument; allowed: enable_local_indexer, bootstrap_port, handoff_session_timeout_ms, reasoning, response_replay_trace_path, zmq_kv_events_port, zmq_replay_port, router_queue_policy"),
    (r#"{"engine": {}, "block_size": 64}"#, "`block_size` is no engine argument; allowed: dp_size, tensor_parallel_size, startup_time, gpu_memory_utilization, mem_fraction_static, free_gpu_memory_fraction, num_gpu_blocks_is_explicit, cuda_graph_reserved_bytes, engine, dynamo"),
    (r#"{"engine_type": "sglang", "sglang": {"pages": 1}}"#, "`sglang.pages` is no engine argument; allowed: schedule_policy, page_size, max_prefill_tokens, chunked_prefill_size, clip_max_new_tokens, schedule_conservativeness"),
    (r#"{"engine_type": "trtllm", "trtllm": {"policy": 1}}"#, "`trtllm.policy` is no engine argument; allowed: capacity_scheduler_policy"),
    // Wrong types and ranges.
    (r#"{"engine": 5}"#, "`engine` is 5; allowed: an object"),
    (r#"{"engine_type": "llama"}"#, r#"`engine_type` is "llama"; allowed: "vllm", "sglang", "trtllm""#),
    (r#"{"engine_type": null}"#, r#"`engine_type` is null; allowed: "vllm", "sglang", "trtllm""#),
    (r#"{"num_gpu_blocks": 0}"#, "`num_gpu_blocks` is 0; allowed: a whole number from 1 to 4294967295"),
    (r#"{"num_gpu_blocks": -3}"#, "`num_gpu_blocks` is -3; allowed: a whole number from 1 to 4294967295"),
    (r#"{"num_gpu_blocks": 4294967296}"#, "`num_gpu_blocks` is 4294967296; allowed: a whole number from 1 to 4294967295"),
    (r#"{"block_size": "64"}"#, r#"`block_size` is "64"; allowed: a whole number from 1 to 4294967295"#),
    (r#"{"block_size": 64.5}"#, "`block_size` is 64.5; allowed: a whole number from 1 to 4294967295"),
    (r#"{"block_size": null}"#, "`block_size` is null; allowed: a whole number from 1 to 4294967295"),
    (r#"{"engine": {"block_size": 1}}"#, "`engine.block_size` is 1; allowed: at least 2 with vllm"),
    (r#"{"max_num_seqs": 0}"#, "`max_num_seqs` is 0; allowed: a whole number from 1 to 4294967295"),
    (r#"{"max_num_batched_tokens": false}"#, "`max_num_batched_tokens` is false; allowed: a whole number from 1 to 4294967295"),
    (r#"{"max_model_len": 0}"#, "`max_model_len` is 0; allowed: a whole number from 1 to 4294967295"),
    (r#"{"enable_prefix_caching": 1}"#, "`enable_prefix_caching` is 1; allowed: true or false"),
    (r#"{"speedup_ratio": -0.5}"#, "`speedup_ratio` is -0.5; allowed: a number of at least 0"),
    (r#"{"decode_speedup_ratio": null}"#, "`decode_speedup_ratio` is null; allowed: a number of at least 0"),
    (r#"{"dp_size": 0}"#, "`dp_size` is 0; allowed: a whole number from 1 to 4294967295"),
    (r#"{"startup_time": "soon"}"#, r#"`startup_time` is "soon"; allowed: a number of at least 0"#),
    (r#"{"worker_type": "both"}"#, r#"`worker_type` is "both"; allowed: "aggregated", "prefill", "decode""#),
    (r#"{"planner_profile_data": ""}"#, r#"`planner_profile_data` is ""; allowed: a path"#),
    (r#"{"watermark": 1.01}"#, "`watermark` is 1.01; allowed: a number from 0 to 1"),
    (r#"{"prefill_schedule_interval": 0}"#, "`prefill_schedule_interval` is 0; allowed: a whole number from 1 to 4294967295"),
    (r#"{"eviction_policy": "belady"}"#, r#"`eviction_policy` is "belady"; allowed: "lineage", "lru", "multi_lru""#),
    (r#"{"scheduling_policy": "lpm"}"#, r#"`scheduling_policy` is "lpm"; allowed: "fcfs", "priority""#),
    (r#"{"preemption_mode": "random"}"#, r#"`preemption_mode` is "random"; allowed: "lifo", "fifo""#),
    (r#"{"kv_transfer_timing_mode": null}"#, r#"`kv_transfer_timing_mode` is null; allowed: "full_prompt", "destination_missing""#),
    (r#"{"kv_transfer_bandwidth": -1}"#, "`kv_transfer_bandwidth` is -1; allowed: a number of at least 0"),
    (r#"{"bootstrap_port": 70000}"#, "`bootstrap_port` is 70000; allowed: a whole number from 1 to 65535"),
    (r#"{"dp_size": 8, "bootstrap_port": 65530}"#, "`bootstrap_port` is 65530; allowed: at most 65528, since each of 8 ranks takes the next port"),
    (r#"{"dynamo": {"handoff_session_timeout_ms": 0}}"#, "`dynamo.handoff_session_timeout_ms` is 0; allowed: a whole number from 1 to 18446744073709551615"),
    (r#"{"router_queue_policy": ""}"#, r#"`router_queue_policy` is ""; allowed: a text that is not empty"#),
    // Objects.
    (r#"{"reasoning": true}"#, "`reasoning` is true; allowed: an object"),
    (r#"{"reasoning": {"start_thinking_token_id": 1, "thinking_ratio": 0.5}}"#, "`reasoning.end_thinking_token_id` is missing; allowed: a value, since `reasoning` is given"),
    (r#"{"reasoning": {"start_thinking_token_id": 1, "end_thinking_token_id": 2, "thinking_ratio": 1.5}}"#, "`reasoning.thinking_ratio` is 1.5; allowed: a number from 0 to 1"),
    (r#"{"reasoning": {"thinking_ration": 1}}"#, "`reasoning.thinking_ration` is no engine argument; did you mean `reasoning.thinking_ratio`?"),
    (r#"{"timing_model": {"type": "magic"}}"#, r#"`timing_model.type` is "magic"; allowed: "polynomial", "fixed", "linear""#),
    (r#"{"timing_model": {"type": "linear", "pass_ms": 1}}"#, "`timing_model.prefill_ms_per_token` is missing; allowed: a value, since `timing_model` is given"),
    (r#"{"timing_model": {"type": "linear", "pass_ms": 1, "prefil_ms_per_token": 1}}"#, "`timing_model.prefil_ms_per_token` is no engine argument; did you mean `timing_model.prefill_ms_per_token`?"),
    (r#"{"timing_model": {"type": "linear", "pass_ms": 1, "prefill_ms_per_token": -2}}"#, "`timing_model.prefill_ms_per_token` is -2; allowed: a number from 0 to 1000000000"),
    (r#"{"timing_model": {}}"#, "`timing_model.type` is missing; allowed: a value, since `timing_model` is given"),
    (r#"{"timing_model": {"type": "fixed", "prefill_ms": 1}}"#, "`timing_model.decode_ms` is missing; allowed: a value, since `timing_model` is given"),
    (r#"{"timing_model": {"type": "fixed", "prefill_ms": -1, "decode_ms": 1}}"#, "`timing_model.prefill_ms` is -1; allowed: a number from 0 to 1000000000"),
    (r#"{"timing_model": {"type": "fixed", "prefill_ms": 1e300, "decode_ms": 1}}"#, "`timing_model.prefill_ms` is 1e+300; allowed: a number from 0 to 1000000000"),
    (r#"{"timing_model": {"type": "fixed", "prefill_ms": 1, "decode_ms": 1000000001}}"#, "`timing_model.decode_ms` is 1000000001; allowed: a number from 0 to 1000000000"),
    (r#"{"timing_model": {"type": "polynomial", "decode_ms": 1}}"#, "`timing_model.decode_ms` is no engine argument; allowed: type"),
    (r#"{"engine_type": "sglang", "sglang": {"schedule_policy": "random"}}"#, r#"`sglang.schedule_policy` is "random"; allowed: "fifo", "fcfs", "lpm", "dfs-weight""#),
    (r#"{"engine_type": "trtllm", "trtllm": {"capacity_scheduler_policy": "max_utilization"}}"#, r#"`trtllm.capacity_scheduler_policy` is "max_utilization"; allowed: "guaranteed_no_evict""#),
    // Arguments that contradict each other.
    (r#"{"is_prefill": true, "is_decode": true}"#, "`is_prefill` and `is_decode` cannot be given together; leave out both for an aggregated engine"),
    (r#"{"is_prefill": false, "worker_type": "decode"}"#, "`is_prefill` and `worker_type` cannot be given together; `worker_type` replaces it"),
    (r#"{"engine": {"kv_bytes_per_token": 1, "kv_transfer_bytes_per_token": 1}}"#, "`engine.kv_transfer_bytes_per_token` and `engine.kv_bytes_per_token` cannot be given together; they are two names of one argument"),
    (r#"{"planner_profile_data": "a", "timing_model": {"type": "polynomial"}}"#, "`planner_profile_data` and `timing_model` cannot be given together; each is a source of durations"),
    (r#"{"engine_type": "sglang", "block_size": 64, "sglang": {"page_size": 32}}"#, "`sglang.page_size` is 32; allowed: 64, the `block_size`"),
    (r#"{"engine_type": "sglang", "block_size": 64, "sglang": {"chunked_prefill_size": 100}}"#, "`sglang.chunked_prefill_size` is 100; allowed: a multiple of the page size 64"),
    (r#"{"engine_type": "sglang", "block_size": 3000}"#, "`sglang.chunked_prefill_size` is 8192; allowed: a multiple of the page size 3000"),
    (r#"{"engine_type": "sglang", "enable_chunked_prefill": false}"#, "`enable_chunked_prefill` is false; allowed: true with sglang"),
    (r#"{"aic_nextn": 6}"#, "`aic_nextn` is 6; allowed: a whole number from 1 to 5"),
    (r#"{"aic_nextn": 1, "decode_speedup_ratio": 2}"#, "`decode_speedup_ratio` is 2; allowed: 1, since `aic_nextn` is given"),
    (r#"{"aic_nextn": 2, "aic_nextn_accept_rates": "0.5,1.5"}"#, r#"`aic_nextn_accept_rates` is "0.5,1.5"; allowed: a text of 1 to 5 numbers from 0 to 1 between commas"#),
    (r#"{"aic_nextn": 2, "aic_nextn_accept_rates": "1,1,1,1,1,1"}"#, r#"`aic_nextn_accept_rates` is "1,1,1,1,1,1"; allowed: a text of 1 to 5 numbers from 0 to 1 between commas"#),
    // Arguments without effect.
    (r#"{"aic_nextn_accept_rates": "0.5"}"#, "`aic_nextn_accept_rates` has no effect without `aic_nextn`; leave it out"),
    (r#"{"aic_mtp_seed": 1}"#, "`aic_mtp_seed` has no effect without `aic_nextn`; leave it out"),
    (r#"{"zmq_replay_port": 5558}"#, "`zmq_replay_port` has no effect without `zmq_kv_events_port`; leave it out"),
    (r#"{"sglang": {}}"#, "`sglang` has no effect with engine type vllm; leave it out"),
    (r#"{"engine": {"sglang": {"clip_max_new_tokens": 1}}}"#, "`engine.sglang` has no effect with engine type vllm; leave it out"),
    (r#"{"engine_type": "sglang", "trtllm": {}}"#, "`trtllm` has no effect with engine type sglang; leave it out"),
    (r#"{"engine_type": "trtllm", "preemption_mode": "lifo"}"#, "`preemption_mode` has no effect with engine type trtllm; leave it out"),
    (r#"{"engine_type": "sglang", "eviction_policy": "lru"}"#, "`eviction_policy` has no effect with engine type sglang; leave it out"),
    (r#"{"engine_type": "sglang", "max_num_batched_tokens": 8192}"#, "`max_num_batched_tokens` has no effect with engine type sglang; leave it out"),
    (r#"{"engine_type": "sglang", "aic_nextn": 2}"#, "`aic_nextn` has no effect with engine type sglang; leave it out"),
    (r#"{"engine_type": "sglang", "scheduling_policy": "priority"}"#, "`scheduling_policy` has no effect with engine type sglang; leave it out"),
    (r#"{"engine_type": "trtllm", "async_scheduling": true}"#, "`async_scheduling` has no effect with engine type trtllm; leave it out"),
    // Published, not yet here.
    (r#"{"num_g2_blocks": 100}"#, "`num_g2_blocks` is 100, but KV tiers beyond GPU memory are not supported yet; allowed: null or 0"),
    (r#"{"enable_g4_storage": true}"#, "`enable_g4_storage` is true, but KV tiers beyond GPU memory are not supported yet; allowed: null or false"),
    (r#"{"engine": {"native_host_offload": {"num_host_blocks": 1}}}"#, r#"`engine.native_host_offload` is {"num_host_blocks":1}, but KV tiers beyond GPU memory are not supported yet; allowed: null"#),
    (r#"{"engine": {"kv_cache_groups": [1]}}"#, "`engine.kv_cache_groups` is [1], but KV cache layouts other than uniform blocks are not supported yet; allowed: null or []"),
    (r#"{"aic_backend": "vllm"}"#, r#"`aic_backend` is "vllm", but performance databases are not supported yet; allowed: null"#),
    (r#"{"aic_gemm_dtype": "fp8"}"#, r#"`aic_gemm_dtype` is "fp8", but performance databases are not supported yet; allowed: null or "auto""#),
    (r#"{"gpu_memory_utilization": 0.9}"#, "`gpu_memory_utilization` is 0.9, but estimating the KV capacity from memory sizes is not supported yet; allowed: null"),
    (r#"{"engine": {"timing_model": {"type": "external", "provider": "ais"}}}"#, r#"`engine.timing_model.type` is "external", but performance databases are not supported yet; allowed: "polynomial", "fixed", "linear", or a profile in `planner_profile_data`"#),
];

#[test]
fn every_refusal_names_argument_value_and_what_is_allowed() {
    let mut wrong = String::new();
    for (text, message) in BAD {
        let found = EngineArgs::from_json(text).map_or_else(|error| error.to_string(), |_| "accepted".to_string());
        if found != *message {
            writeln!(wrong, "{text}\n  found    {found}\n  expected {message}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn long_values_and_keys_are_cut_in_messages() {
    let long = "x".repeat(10_000);
    for text in [format!(r#"{{"block_size": "{long}"}}"#), format!(r#"{{"{long}": 1}}"#)] {
        assert!(EngineArgs::from_json(&text).unwrap_err().to_string().len() < 2000);
    }
}
