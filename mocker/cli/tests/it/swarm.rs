//! Random engines on random traces from one seed: whatever the settings, no request, token or row is lost, times are in
//! order, and two runs agree. A failure names its seed.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::mutations::Random;
use crate::place::{Place, Ran, number};

const RUNS: u64 = 400;

/// One run: engine arguments, trace, and further flags.
struct Case {
    engine: Map<String, Value>,
    rows: Vec<Value>,
    flags: Vec<String>,
}

/// Sets `key` to one of `values` in a third of the cases.
fn perhaps(random: &mut Random, object: &mut Map<String, Value>, key: &str, values: &[Value]) {
    if random.below(3) == 0 {
        object.insert(key.to_owned(), values[random.below(values.len())].clone());
    }
}

fn engine(random: &mut Random) -> Map<String, Value> {
    let name = ["vllm", "vllm", "sglang", "trtllm"][random.below(4)];
    let block_size = [2, 3, 16, 64, 100, 512][random.below(6)];
    let mut engine = Map::new();
    engine.insert("engine_type".to_owned(), name.into());
    engine.insert("block_size".to_owned(), block_size.into());
    engine.insert("num_gpu_blocks".to_owned(), [1, 5, 20, 100, 1000, 5000][random.below(6)].into());
    let mut perhaps = |key: &str, values: &[Value]| perhaps(random, &mut engine, key, values);
    perhaps("max_num_seqs", &[json!(1), json!(3), Value::Null]);
    perhaps("max_model_len", &[json!(10), json!(700), json!(3000)]);
    perhaps("enable_prefix_caching", &[json!(false)]);
    perhaps("speedup_ratio", &[json!(0), json!(0.01), json!(1e6)]);
    perhaps("dp_size", &[json!(2), json!(3)]);
    perhaps("startup_time", &[json!(0), json!(30)]);
    let linear = r#"{"type": "linear", "pass_ms": 3.5, "prefill_ms_per_token": 0.05, "decode_ms_per_request": 0.05,
        "decode_ms_per_kv_token": 0.0001}"#;
    let linear = serde_json::from_str(linear).expect("JSON");
    perhaps("timing_model", &[json!({"type": "fixed", "prefill_ms": 0, "decode_ms": 1}), linear]);
    if name != "sglang" {
        perhaps("max_num_batched_tokens", &[json!(1), json!(64), json!(2048), Value::Null]);
        perhaps("enable_chunked_prefill", &[json!(false)]);
    }
    match name {
        "vllm" => {
            perhaps("preemption_mode", &[json!("fifo")]);
            perhaps("eviction_policy", &[json!("lru"), json!("multi_lru")]);
            perhaps("scheduling_policy", &[json!("priority")]);
            perhaps("long_prefill_token_threshold", &[json!(1), json!(100)]);
            perhaps("scheduler_reserve_full_isl", &[json!(true), json!(false)]);
            perhaps("watermark", &[json!(0.01), json!(0.5), json!(1)]);
            perhaps("prefill_schedule_interval", &[json!(2), json!(9)]);
            perhaps("async_scheduling", &[json!(true)]);
            perhaps("aic_nextn", &[json!(1), json!(5)]);
        }
        "sglang" => {
            let policy = ["fifo", "lpm", "dfs-weight"][random.below(3)];
            let chunk = block_size * [1, 2, 50][random.below(3)];
            let settings = json!({"schedule_policy": policy, "chunked_prefill_size": chunk, "max_prefill_tokens": 500});
            engine.insert("sglang".to_owned(), settings);
        }
        _ => {}
    }
    engine
}

fn case(seed: u64) -> Case {
    let mut random = Random(seed);
    let engine = engine(&mut random);
    let block_size = [1, 16, 512][random.below(3)];
    let (mut rows, mut time, mut sessions) = (Vec::new(), 0, [false; 5]);
    for index in 0..=random.below(60) {
        time += [0, 0, 1, 50, 1000][random.below(5)];
        let (blocks, family) = (1 + random.below(8), 100 * random.below(4));
        let own = random.below(blocks + 1);
        let ids: Vec<_> = (0..blocks).map(|block| if block < own { family + block } else { 1000 + index }).collect();
        let output = [1, 2, 1 + random.below(200)][random.below(3)];
        let priority = [-5, 0, 0, i64::from(i32::MAX), i64::from(i32::MIN)][random.below(5)];
        let mut row = json!({
            "input_length": block_size * (blocks - 1) + 1 + random.below(block_size),
            "output_length": output,
            "hash_ids": ids,
            "priority": priority,
        });
        let session = random.below(12);
        let later = sessions.get_mut(session).is_some_and(|seen| std::mem::replace(seen, true));
        let (key, value) = if later { ("delay_ms", 100 * random.below(2)) } else { ("timestamp", time) };
        row[key] = value.into();
        if session < sessions.len() {
            row["session_id"] = format!("s{session}").into();
        }
        rows.push(row);
    }
    let mut flags = vec!["--num-workers".to_owned(), [1, 1, 2, 5][random.below(4)].to_string()];
    flags.extend(["--trace-block-size".to_owned(), block_size.to_string()]);
    if random.below(2) == 0 {
        flags.extend(["--replay-concurrency".to_owned(), [1, 3, 20][random.below(3)].to_string()]);
    }
    Case { engine, rows, flags }
}

/// What is wrong with the outcome of a case.
fn wrong(case: &Case, place: &Place) -> String {
    let lines: Vec<_> = case.rows.iter().map(Value::to_string).collect();
    place.file("trace.jsonl", lines.join("\n"));
    let json = Value::Object(case.engine.clone()).to_string();
    let mut args = vec!["replay", "trace.jsonl", "-q", "--check-determinism", "--extra-engine-args", &json];
    args.extend(["--report-json", "report.json", "--report-jsonl", "rows.jsonl"]);
    args.extend(case.flags.iter().map(String::as_str));
    let Ran { code, stderr, .. } = place.run(&args);
    if code != Some(0) {
        return format!("exit {code:?}: {stderr}");
    }
    let (report, rows, mut wrong) = (place.json("report.json"), place.jsonl("rows.jsonl"), String::new());
    let count = |status: &str| rows.iter().filter(|row| row["terminal_status"] == status).count();
    let counts = [rows.len(), count("completed"), count("rejected")];
    let reported = ["num_requests", "completed_requests", "rejected_requests"].map(|key| report[key].as_u64());
    if counts.map(|count| Some(count as u64)) != reported || counts[0] != case.rows.len() {
        let _ = write!(wrong, "counts {counts:?}, reported {reported:?}; ");
    }
    for row in rows.iter().filter(|row| row["terminal_status"] == "completed") {
        let index = usize::from_str_radix(&row["uuid"].as_str().expect("a text")[24..], 16).expect("a number");
        let given = |key: &str| case.rows[index][key].as_u64().expect("a number");
        let limit = case.engine.get("max_model_len").map_or(u64::MAX, |limit| limit.as_u64().expect("a number"));
        let times =
            ["arrival_time_ms", "first_admit_ms", "first_token_ms", "last_token_ms"].map(|key| number(row, key));
        let output = given("output_length").min(limit - given("input_length"));
        if row["output_length"] != output || row["input_length"] != given("input_length") || !times.is_sorted() {
            let _ = write!(wrong, "row {index} is {row}; ");
        }
        if number(row, "reused_input_tokens") > given("input_length") as f64 {
            let _ = write!(wrong, "row {index} reuses more than it has; ");
        }
    }
    wrong
}

#[test]
fn random_engines_lose_no_request_token_or_row() {
    let place = Place::new();
    let mut failures = String::new();
    for seed in 0..RUNS {
        let case = case(seed);
        let wrong = wrong(&case, &place);
        if !wrong.is_empty() {
            let engine = Value::Object(case.engine);
            let _ = writeln!(failures, "seed {seed}: {wrong}\n  {engine} {:?}", case.flags);
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}
