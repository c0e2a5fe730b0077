//! Rendered settings read back as they were.

use crate::args::EngineArgs;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// An optional `key: value` entry.
fn maybe(
    key: &'static str,
    value: impl Strategy<Value = Value>,
) -> impl Strategy<Value = Option<(&'static str, Value)>> {
    prop::option::of(value.prop_map(move |value| (key, value)))
}

fn share() -> impl Strategy<Value = Value> {
    (0.0..=1.0f64).prop_map(|number| json!(number))
}

fn count() -> impl Strategy<Value = Value> {
    (1..=u32::MAX).prop_map(|number| json!(number))
}

fn common() -> impl Strategy<Value = Vec<Option<(&'static str, Value)>>> {
    let fixed = (0.0..1e9f64, 0.0..1e9f64).prop_map(|(a, b)| json!({"type": "fixed", "prefill_ms": a, "decode_ms": b}));
    let linear = (0.0..1e9f64, 0.0..1e9f64, prop::option::of(0.0..1.0f64)).prop_map(|(pass, token, weights)| {
        let mut object = json!({"type": "linear", "pass_ms": pass, "prefill_ms_per_token": token,
                                "decode_ms_per_request": token, "decode_ms_per_kv_token": pass});
        if let Some(weights) = weights {
            object["weights_ms"] = json!(weights);
        }
        object
    });
    let model = prop_oneof![fixed, linear];
    (
        (maybe("num_gpu_blocks", count()), maybe("max_num_seqs", prop_oneof![count(), Just(Value::Null)])),
        (
            maybe("speedup_ratio", (0.0..1e9f64).prop_map(|x| json!(x))),
            maybe("dp_size", (1..9u32).prop_map(|x| json!(x))),
        ),
        maybe("timing_model", model),
        maybe("kv_transfer_bandwidth", share()),
        maybe("worker_type", prop::sample::select(vec![json!("prefill"), json!("decode")])),
        maybe("bootstrap_port", (1..60_000u16).prop_map(|x| json!(x))),
        maybe("enable_prefix_caching", any::<bool>().prop_map(|x| json!(x))),
        maybe("response_replay_trace_path", "[a-z/ü\"]{1,8}".prop_map(|x| json!(x))),
        share().prop_map(|x| {
            Some(("reasoning", json!({"start_thinking_token_id": 1, "end_thinking_token_id": 9, "thinking_ratio": x})))
        }),
    )
        .prop_map(|((a, b), (c, d), e, f, g, h, i, j, k)| vec![a, b, c, d, e, f, g, h, i, j, k])
}

fn engine() -> impl Strategy<Value = Vec<Option<(&'static str, Value)>>> {
    let vllm = (
        maybe("block_size", count()),
        maybe("watermark", share()),
        maybe("preemption_mode", Just(json!("FIFO"))),
        maybe("aic_nextn", (1..=5u32).prop_map(|x| json!(x))),
        maybe("scheduling_policy", Just(json!("priority"))),
        maybe("max_num_batched_tokens", prop_oneof![count(), Just(Value::Null)]),
    )
        .prop_map(|(a, b, c, d, e, f)| vec![a, b, c, d, e, f]);
    let sglang = (1..100u32, 1..100u32, share(), prop::sample::select(vec!["fcfs", "lpm", "dfs-weight"])).prop_map(
        |(page, pages, conservativeness, policy)| {
            let object = json!({"page_size": page, "chunked_prefill_size": page * pages, "schedule_policy": policy,
                                "schedule_conservativeness": conservativeness});
            vec![Some(("engine_type", json!("sglang"))), Some(("sglang", object))]
        },
    );
    let trtllm = maybe("eviction_policy", Just(json!("lru")))
        .prop_map(|policy| vec![Some(("engine_type", json!("trtllm"))), policy]);
    prop_oneof![vllm.boxed(), sglang.boxed(), trtllm.boxed()]
}

#[test]
fn numbers_with_many_digits_are_rounded_to_the_nearest() {
    // Found by fuzzing: read one unit in the last place off, unless serde_json parses exactly.
    let text = r#"{"watermark": 0.011666666666666666666666666666666666666666666666666666666666666666}"#;
    let args = EngineArgs::from_json(text).unwrap();
    assert_eq!(args.watermark.to_bits(), (7.0f64 / 600.0).to_bits());
    assert_eq!(EngineArgs::from_json(&args.to_json()).unwrap().watermark.to_bits(), args.watermark.to_bits());
}

proptest! {
    #[test]
    fn rendered_settings_read_back(common in common(), engine in engine()) {
        let object: Map<String, Value> =
            common.into_iter().chain(engine).flatten().map(|(key, value)| (key.to_string(), value)).collect();
        let args = EngineArgs::from_json(&Value::Object(object).to_string()).unwrap();
        let text = args.to_json();
        let mut again = EngineArgs::from_json(&text).unwrap();
        prop_assert_eq!(&again.to_json(), &text);
        again.given.clone_from(&args.given);
        prop_assert_eq!(again, args);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,60}", key in "[a-z_]{1,20}", value in ".{0,20}") {
        let _ = EngineArgs::from_json(&text);
        let _ = EngineArgs::from_json(&format!("{{\"{key}\": {value}}}"));
    }
}
