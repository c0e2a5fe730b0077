//! `--extra-engine-args` that cannot be used.

use crate::place::Place;
use crate::refused::{SMALL, Table};

/// JSON and message.
#[rustfmt::skip]
const BAD: &[(&str, &str)] = &[
    ("", "engine arguments: EOF while parsing a value at line 1 column 0"),
    ("{", "engine arguments: EOF while parsing an object at line 1 column 1"),
    ("[64]", "engine arguments are [64]; allowed: a JSON object"),
    ("engine.json", "engine arguments: expected value at line 1 column 1"),
    ("{} []", "engine arguments: trailing characters at line 1 column 4"),
    (r#"{"block_size":64,"block_size":32}"#, "engine arguments: `block_size` is given twice at line 1 column 29"),
    (r#"{"blok_size":64}"#, "`blok_size` is no engine argument; did you mean `block_size`?"),
    (r#"{"num_gpu_blocks":0}"#, "`num_gpu_blocks` is 0; allowed: a whole number from 1 to 4294967295"),
    (r#"{"block_size":"64"}"#, r#"`block_size` is "64"; allowed: a whole number from 1 to 4294967295"#),
    (r#"{"max_num_seqs":-1}"#, "`max_num_seqs` is -1; allowed: a whole number from 1 to 4294967295"),
    (r#"{"enable_prefix_caching":"yes"}"#, r#"`enable_prefix_caching` is "yes"; allowed: true or false"#),
    (r#"{"speedup_ratio":-1}"#, "`speedup_ratio` is -1; allowed: a number of at least 0"),
    (r#"{"speedup_ratio":1e999}"#, "engine arguments: number out of range at line 1 column 22"),
    (r#"{"engine_type":"tgi"}"#, r#"`engine_type` is "tgi"; allowed: "vllm", "sglang", "trtllm""#),
    (r#"{"startup_time":-0.5}"#, "`startup_time` is -0.5; allowed: a number of at least 0"),
    (r#"{"preemption_mode":"newest"}"#, r#"`preemption_mode` is "newest"; allowed: "lifo", "fifo""#),
    (r#"{"reasoning":{"start_thinking_token_id":1,"end_thinking_token_id":2}}"#, "`reasoning.thinking_ratio` is missing; allowed: a value, since `reasoning` is given"),
    (r#"{"sglang":{"page_size":1}}"#, "`sglang` has no effect with engine type vllm; leave it out"),
    (r#"{"engine_type":"sglang","block_size":3000}"#, "`sglang.chunked_prefill_size` is 8192; allowed: a multiple of the page size 3000"),
    (r#"{"engine_type":"sglang","preemption_mode":"fifo"}"#, "`preemption_mode` has no effect with engine type sglang; leave it out"),
    (r#"{"num_g2_blocks":10}"#, "`num_g2_blocks` is 10, but KV tiers beyond GPU memory are not supported yet; allowed: null or 0"),
    (r#"{"aic_backend":"vllm"}"#, r#"`aic_backend` is "vllm", but performance databases are not supported yet; allowed: null"#),
    (r#"{"engine":{"block_size":1}}"#, "`engine.block_size` is 1; allowed: at least 2 with vllm"),
    (r#"{"timing_model":{"type":"linear","pass_ms":1}}"#, "`timing_model.prefill_ms_per_token` is missing; allowed: a value, since `timing_model` is given"),
    (r#"{"timing_model":{"type":"quadratic"}}"#, r#"`timing_model.type` is "quadratic"; allowed: "polynomial", "fixed", "linear""#),
    (r#"{"startup_time":1e300}"#, "startup_time: 1e300 is out of range (allowed: 0 to 3200000000)"),
    (r#"{"num_gpu_blocks":4294967295}"#, "num_gpu_blocks: 4294967295 blocks on 1 ranks together are out of range (allowed: up to 268435456)"),
    (r#"{"block_size":4294967295}"#, "block_size: 4294967295 is out of range (allowed: 1 to 67108864)"),
    (r#"{"worker_type":"prefill"}"#, "worker_type: workers of one pool do prefill and decode; for two pools give --prefill-engine-args and --decode-engine-args"),
    (r#"{"is_decode":true}"#, "worker_type: workers of one pool do prefill and decode; for two pools give --prefill-engine-args and --decode-engine-args"),
    (r#"{"bootstrap_port":5000}"#, "bootstrap_port: has no effect in an offline run, remove it"),
    (r#"{"kv_transfer_bandwidth":64.0}"#, "kv_transfer_bandwidth: has no effect in an offline run of aggregated workers, remove it"),
    (r#"{"emit_kv_events":true}"#, "emit_kv_events: has no effect in an offline run, remove it"),
    (r#"{"router_queue_policy":"fcfs"}"#, "router_queue_policy: has no effect without --router-mode kv_router, remove it"),
];

#[test]
fn a_file_in_place_of_json_is_named_with_the_way_out() {
    let place = Place::new();
    place.file("engine.json", "{}");
    let args = [&["replay"], &SMALL[..], &["--extra-engine-args", "engine.json"]].concat();
    let message = "--extra-engine-args: `engine.json` is a file; give the JSON in it, \"$(cat engine.json)\"";
    let mut table = Table::default();
    table.row(&place, &args, message);
    table.finish(1);
}

#[test]
fn bad_engine_arguments_are_named_with_what_is_allowed() {
    let place = Place::new();
    let mut table = Table::default();
    for (json, message) in BAD {
        let args = [&["replay"], &SMALL[..], &["--extra-engine-args", json]].concat();
        table.row(&place, &args, &format!("--extra-engine-args: {message}"));
    }
    table.finish(20);
}
