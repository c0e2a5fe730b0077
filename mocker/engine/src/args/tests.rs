//! The two forms, defaults, checks; [`bad`] holds the table of refused inputs.

mod bad;
mod round_trip;

use super::*;

fn parse(text: &str) -> EngineArgs {
    EngineArgs::from_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn an_empty_object_gives_the_documented_defaults() {
    assert_eq!(parse("{}"), EngineArgs::default());
    assert_eq!(parse(r#"{"engine": {}}"#), EngineArgs::default());
    assert_eq!(parse(r#"{"dynamo": {}}"#), EngineArgs::default());
}

#[test]
fn the_block_size_depends_on_the_engine() {
    for (text, expected) in [
        ("{}", 64),
        (r#"{"engine_type": "vLLM"}"#, 64),
        (r#"{"engine_type": "sglang"}"#, 1),
        (r#"{"engine_type": "SGLang", "sglang": {"page_size": 16}}"#, 16),
        (r#"{"engine_type": "sglang", "sglang": {"page_size": 16}, "block_size": 16}"#, 16),
        (r#"{"engine_type": "sglang", "sglang": null, "block_size": 512}"#, 512),
        (r#"{"engine_type": "trtllm"}"#, 32),
        (r#"{"block_size": 1}"#, 1),
        (r#"{"engine": {"backend": "trtllm"}}"#, 32),
    ] {
        assert_eq!(parse(text).block_size, expected, "{text}");
    }
}

#[test]
fn both_forms_describe_the_same_engine() {
    let flat = parse(
        r#"{"engine_type": "vllm", "num_gpu_blocks": 100, "max_num_seqs": null, "dp_size": 2, "startup_time": 1.5,
            "worker_type": "prefill", "kv_bytes_per_token": 1000, "timing_model": {"type": "polynomial"},
            "reasoning": {"start_thinking_token_id": 1, "end_thinking_token_id": 2, "thinking_ratio": 0.5},
            "zmq_kv_events_port": 5557, "zmq_replay_port": 5600, "aic_nextn": 2, "aic_nextn_accept_rates": "0.9, 0.4"}"#,
    );
    let nested = parse(
        r#"{"engine": {"backend": "vllm", "num_gpu_blocks": 100, "max_num_seqs": null, "worker_type": "prefill",
                       "kv_transfer_bytes_per_token": 1000, "timing_model": {"type": "polynomial"}, "aic_nextn": 2,
                       "aic_nextn_accept_rates": "0.9, 0.4"},
            "dynamo": {"reasoning": {"start_thinking_token_id": 1, "end_thinking_token_id": 2, "thinking_ratio": 0.5},
                       "zmq_kv_events_port": 5557, "zmq_replay_port": 5600},
            "dp_size": 2, "startup_time": 1.5}"#,
    );
    assert_eq!(flat, nested);
    assert_eq!(flat.max_num_seqs, None);
    assert_eq!(flat.worker_type, Role::Prefill);
    assert_eq!(flat.kv_transfer().bytes_per_token, Some(1000));
    assert_eq!(flat.gpus(), 2);
    assert_eq!(flat.kv_capacity_tokens(), 6400);
}

#[test]
fn a_configuration_completed_with_every_default_is_taken() {
    let nested = parse(
        r#"{"engine": {"backend": "sglang", "num_gpu_blocks": 16384, "block_size": 1, "max_num_seqs": 256,
              "max_num_batched_tokens": 8192, "prefill_schedule_interval": 1, "prefill_decode_interval": 0,
              "enable_prefix_caching": true, "enable_chunked_prefill": true, "speedup_ratio": 1.0,
              "decode_speedup_ratio": 1, "aic_nextn": null, "aic_nextn_accept_rates": null, "aic_mtp_seed": 42,
              "worker_type": "aggregated", "preemption_mode": "lifo", "emit_kv_events": false,
              "emit_kv_token_ids": false, "kv_cache_groups": [], "native_host_offload": null, "state_cache": null,
              "kv_transfer_timing_mode": "full_prompt", "timing_model": {"type": "polynomial"},
              "sglang": {"schedule_policy": "fifo", "max_prefill_tokens": 16384, "chunked_prefill_size": 8192,
                         "clip_max_new_tokens": 4096, "schedule_conservativeness": 1.0},
              "trtllm": {"capacity_scheduler_policy": "guaranteed_no_evict"}},
            "dp_size": 1, "tensor_parallel_size": 1, "startup_time": null, "num_gpu_blocks_is_explicit": false,
            "cuda_graph_reserved_bytes": null,
            "dynamo": {"enable_local_indexer": false, "bootstrap_port": null, "handoff_session_timeout_ms": 300000}}"#,
    );
    let mut plain = parse(r#"{"engine_type": "sglang"}"#);
    plain.given.clone_from(&nested.given);
    assert_eq!(nested, plain);
}

#[test]
fn given_arguments_are_remembered_by_their_flat_names() {
    let args = parse(
        r#"{"engine": {"backend": "sglang", "block_size": 64, "max_num_seqs": null, "max_model_len": null,
                       "sglang": {"schedule_policy": "lpm"}}, "dynamo": {"bootstrap_port": 9000}}"#,
    );
    let given: Vec<_> = args.given.iter().copied().collect();
    let expected = ["block_size", "bootstrap_port", "engine_type", "max_num_seqs", "sglang", "sglang.schedule_policy"];
    assert_eq!(given, expected);
    assert!(args.was_given("bootstrap_port") && !args.was_given("max_model_len"));
    assert!(parse(r#"{"has_perf_model": true, "num_g2_blocks": 0, "enable_g4_storage": false}"#).given.is_empty());
}

#[test]
fn roles_may_be_given_in_the_old_way() {
    assert_eq!(parse(r#"{"is_prefill": true}"#).worker_type, Role::Prefill);
    assert_eq!(parse(r#"{"is_decode": true, "is_prefill": false}"#).worker_type, Role::Decode);
    assert_eq!(parse(r#"{"is_decode": false}"#).worker_type, Role::Aggregated);
}

#[test]
fn policies_have_their_published_spellings() {
    for (name, policy) in [
        ("fifo", SglangPolicy::Fifo),
        ("fcfs", SglangPolicy::Fifo),
        ("lpm", SglangPolicy::Lpm),
        ("dfs-weight", SglangPolicy::DfsWeight),
    ] {
        let text = format!(r#"{{"engine_type": "sglang", "sglang": {{"schedule_policy": "{name}"}}}}"#);
        assert_eq!(parse(&text).sglang.schedule_policy, policy);
    }
    let vllm = parse(r#"{"scheduling_policy": "priority", "preemption_mode": "fifo", "eviction_policy": "multi_lru"}"#);
    let expected = (Policy::Priority, Preemption::Fifo, Eviction::MultiLru);
    assert_eq!((vllm.scheduling_policy, vllm.preemption_mode, vllm.eviction_policy), expected);
}

#[test]
fn missing_accept_rates_have_defaults() {
    let rates = |text: &str| parse(text).mtp.map(|mtp| mtp.accept_rates);
    assert_eq!(rates(r#"{"aic_nextn": 3}"#), Some(vec![0.85, 0.3, 0.0]));
    assert_eq!(rates(r#"{"aic_nextn": 3, "aic_nextn_accept_rates": "0.5"}"#), Some(vec![0.5, 0.0, 0.0]));
    assert_eq!(rates(r#"{"aic_nextn": 1, "aic_nextn_accept_rates": "0.5,0.4,0.3,0.2,0.1"}"#), Some(vec![0.5]));
    assert_eq!(rates("{}"), None);
    let args = parse(r#"{"aic_nextn": 1, "aic_mtp_seed": 18446744073709551615}"#);
    let mut wrapped = args.mtp_sampler(3).unwrap();
    let mut two = Mtp::new(1, &[0.85], 2);
    assert!((0..50).all(|_| wrapped.burst() == two.burst()));
}

#[test]
fn durations_come_from_the_configured_model() {
    let mut nothing = |_: &std::path::Path| Err::<Vec<u8>, _>(std::io::Error::from(std::io::ErrorKind::NotFound));
    let timing = |text: &str, read: ReadFile<'_>| parse(text).timing(read);
    let batch = crate::DecodeBatch { requests: 1, kv_tokens: 5001 };
    let fixed = r#"{"timing_model": {"type": "fixed", "prefill_ms": 3, "decode_ms": 0.5}, "speedup_ratio": 2}"#;
    assert_eq!(timing(fixed, &mut nothing).unwrap().decode(batch, 1), crate::Nanos(250_000));
    let built_in = r#"{"planner_profile_data": "results/H200_TP1P_TP1D"}"#;
    assert!(matches!(timing(built_in, &mut nothing).unwrap().model(), TimingModel::Interpolated(_)));
    let missing = r#"{"planner_profile_data": "none"}"#;
    assert!(matches!(timing(missing, &mut nothing), Err(ProfileError::Missing { .. })));
    let null = r#"{"planner_profile_data": null}"#;
    assert_eq!(timing(null, &mut nothing).unwrap(), Timing::default());
}
