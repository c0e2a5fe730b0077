//! Pools and routers that cannot be used.

use crate::place::Place;
use crate::refused::{SMALL, Table};

const PREFILL: [&str; 2] = ["--prefill-engine-args", r#"{"worker_type":"prefill"}"#];
const DECODE: [&str; 2] = ["--decode-engine-args", r#"{"worker_type":"decode"}"#];
const KV: [&str; 2] = ["--router-mode", "kv_router"];

/// Flags of two pools, and the message.
#[rustfmt::skip]
const POOLS: &[(&[&str], &str)] = &[
    (&PREFILL, "--prefill-engine-args: needs --decode-engine-args"),
    (&DECODE, "--decode-engine-args: needs --prefill-engine-args"),
    (&["--num-prefill-workers", "2"], "--num-prefill-workers: needs --prefill-engine-args and --decode-engine-args"),
    (&["--num-decode-workers", "2"], "--num-decode-workers: needs --prefill-engine-args and --decode-engine-args"),
    (&[PREFILL[0], PREFILL[1], DECODE[0], DECODE[1], "--num-workers", "2"], "--num-workers: has no effect with --prefill-engine-args"),
    (&[PREFILL[0], PREFILL[1], DECODE[0], DECODE[1], "--extra-engine-args", "{}"], "--extra-engine-args: has no effect with --prefill-engine-args"),
    (&[PREFILL[0], PREFILL[1], DECODE[0], DECODE[1], "--num-prefill-workers", "0"], "--num-prefill-workers: 0 is out of range (allowed: 1 to 65536)"),
    (&[PREFILL[0], PREFILL[1], DECODE[0], DECODE[1], "--num-decode-workers", "65537"], "--num-decode-workers: 65537 is out of range (allowed: 1 to 65536)"),
    (&[PREFILL[0], PREFILL[1], DECODE[0], DECODE[1], "--num-prefill-workers", "10000", "--num-decode-workers", "10000"], "--decode-engine-args: num_gpu_blocks: 327680000 blocks on 10000 ranks together are out of range (allowed: up to 268435456)"),
    (&[PREFILL[0], "{}", DECODE[0], DECODE[1]], "--prefill-engine-args: worker_type: must be \"prefill\""),
    (&[PREFILL[0], PREFILL[1], DECODE[0], PREFILL[1]], "--decode-engine-args: worker_type: must be \"decode\""),
    (&[PREFILL[0], "{", DECODE[0], DECODE[1]], "--prefill-engine-args: engine arguments: EOF while parsing an object at line 1 column 1"),
    (&[PREFILL[0], PREFILL[1], DECODE[0], r#"{"worker_type":"decode","block_size":32}"#], "--decode-engine-args: block_size: 32 differs from the 64 of --prefill-engine-args"),
    (&[PREFILL[0], PREFILL[1], DECODE[0], r#"{"worker_type":"decode","block_size":64,"engine_type":"sglang"}"#], "--decode-engine-args: engine_type: sglang differs from the vllm of --prefill-engine-args"),
    (&[PREFILL[0], PREFILL[1], DECODE[0], r#"{"worker_type":"decode","kv_transfer_bandwidth":64}"#], "--decode-engine-args: kv_transfer_bandwidth: belongs to --prefill-engine-args, which says how KV leaves"),
    (&[PREFILL[0], r#"{"worker_type":"prefill","bootstrap_port":5000}"#, DECODE[0], DECODE[1]], "--prefill-engine-args: bootstrap_port: has no effect in an offline run, remove it"),
    (&[PREFILL[0], r#"{"worker_type":"prefill","reasoning":{"start_thinking_token_id":1,"end_thinking_token_id":2,"thinking_ratio":0.5}}"#, DECODE[0], DECODE[1]], "--prefill-engine-args: reasoning: has no effect with worker_type prefill, remove it"),
    (&[PREFILL[0], r#"{"worker_type":"prefill","router_queue_policy":"wspt"}"#, DECODE[0], DECODE[1]], "--prefill-engine-args: router_queue_policy: has no effect without --router-mode kv_router, remove it"),
];

/// Flags of the router, and the message.
#[rustfmt::skip]
const ROUTERS: &[(&[&str], &str)] = &[
    (&["--router-config", "{}"], "--router-config: has no effect without --router-mode kv_router"),
    (&["--router-policy-config", "policy.yaml"], "--router-policy-config: has no effect without --router-mode kv_router"),
    (&["--kv-event-lag-ms", "1"], "--kv-event-lag-ms: has no effect without --router-mode kv_router"),
    (&["--router-seed", "1"], "--router-seed: has no effect without --router-mode kv_router"),
    (&["--explain-request", "1"], "--explain-request: has no effect without --router-mode kv_router"),
    (&[KV[0], KV[1], "--router-config", "{"], "--router-config: EOF while parsing an object at line 1 column 1"),
    (&[KV[0], KV[1], "--router-config", r#"{"use_remote_indexer":true}"#], "--router-config: use_remote_indexer: has no effect in an offline run, remove it"),
    (&[KV[0], KV[1], "--router-config", r#"{"conditional_disagg_enabled":true}"#], "--router-config: conditional_disagg_enabled: has no effect in an offline run, remove it"),
    (&[KV[0], KV[1], "--kv-event-lag-ms=-1"], "--kv-event-lag-ms: -1 is out of range (allowed: 0 to 3200000000000)"),
    (&[KV[0], KV[1], "--explain-request", "first"], "--explain-request: `first` is no request (allowed: its number in the input, from 0, or the uuid of its row)"),
    (&[KV[0], KV[1], "--router-policy-config", "a", "--router-config", r#"{"router_policy_config":"b"}"#], "--router-policy-config and router_policy_config of --router-config: give one of them"),
];

#[test]
fn pools_that_do_not_go_together_are_named() {
    let place = Place::new();
    let mut table = Table::default();
    for (flags, message) in POOLS {
        table.row(&place, &[&["replay"], &SMALL[..], flags].concat(), message);
    }
    table.finish(18);
}

#[test]
fn router_settings_that_cannot_be_used_are_named() {
    let place = Place::new();
    let mut table = Table::default();
    for (flags, message) in ROUTERS {
        table.row(&place, &[&["replay"], &SMALL[..], flags].concat(), message);
    }
    table.finish(11);
}

#[test]
fn unknown_keys_and_values_of_the_router_are_named_with_what_is_allowed() {
    let place = Place::new();
    place.file("policy.yaml", "policy_classes: 1");
    for (more, words) in [
        (
            ["--router-config", r#"{"router_temprature":1}"#],
            ["--router-config: ", "router_temprature", "router_temperature"],
        ),
        (["--router-config", r#"{"router_temperature":-1}"#], ["router_temperature", "-1", "at least 0"]),
        (["--router-config", r#"{"router_queue_policy":"random"}"#], ["random", "fcfs", "wspt"]),
        (["--router-policy-config", "policy.yaml"], ["--router-policy-config: policy.yaml: ", "policy_classes", ""]),
    ] {
        let ran = place.run(&[&["replay"], &SMALL[..], &KV, &more].concat());
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(words.iter().all(|word| ran.stderr.contains(word)), "{words:?}: {}", ran.stderr);
    }
}
