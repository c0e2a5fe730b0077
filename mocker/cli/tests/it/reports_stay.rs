//! Reports of small traces, byte by byte.
//!
//! A change here is a change of what is simulated. If it is wanted, `UPDATE_GOLDEN=1 cargo test -p dynosim` writes the
//! files anew; say in the commit why the numbers changed. Numbers are held to 12 digits, so that another order of adding
//! them up is no change.

use serde_json::Value;

use crate::golden;
use crate::place::Place;

/// Fields that measure the host.
pub(crate) const CLOCK: [&str; 3] = ["wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"];

fn report(trace: &[&str], replay: &[&str]) -> String {
    let place = Place::new();
    let ran = place.run(&[&["trace", "generate", "-o", "trace.jsonl"], trace].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut report: Value = place.replay(&[&["trace.jsonl"], replay].concat());
    let fields = report.as_object_mut().expect("an object");
    for field in CLOCK {
        fields.remove(field);
    }
    for value in fields.values_mut().filter(|value| value.is_f64()) {
        let rounded = format!("{:.11e}", value.as_f64().expect("a number"));
        *value = rounded.parse::<f64>().expect("a number").into();
    }
    serde_json::to_string_pretty(&report).expect("JSON") + "\n"
}

/// Bursts on a small cache, so that requests wait, are preempted and lose their blocks.
const BURST: [&str; 6] = ["--requests", "300", "--conversation-rate-rps", "20", "--mean-think-ms", "500"];

#[test]
fn vllm_keeps_its_report() {
    let json = r#"{"num_gpu_blocks":900,"block_size":64}"#;
    let found = report(&BURST, &["--num-workers", "2", "--extra-engine-args", json, "--sla-ttft-ms", "2000"]);
    golden::assert_equal(&golden::file("vllm.json"), &found);
}

#[test]
fn sglang_keeps_its_report() {
    let json = r#"{"engine_type":"sglang","num_gpu_blocks":60000,"block_size":1,"sglang":{"schedule_policy":"lpm"}}"#;
    let found = report(&[&BURST[..], &["--sessions"]].concat(), &["--extra-engine-args", json]);
    golden::assert_equal(&golden::file("sglang.json"), &found);
}

#[test]
fn trtllm_keeps_its_report() {
    let json = r#"{"engine_type":"trtllm","num_gpu_blocks":2000}"#;
    let found = report(&BURST, &["--replay-concurrency", "24", "--extra-engine-args", json]);
    golden::assert_equal(&golden::file("trtllm.json"), &found);
}

#[test]
fn speculative_decoding_and_fifo_preemption_keep_their_report() {
    let json = r#"{"num_gpu_blocks":900,"aic_nextn":2,"preemption_mode":"fifo","eviction_policy":"lru"}"#;
    let found = report(&[&BURST[..], &["--seed", "3"]].concat(), &["--extra-engine-args", json]);
    golden::assert_equal(&golden::file("vllm_mtp.json"), &found);
}
