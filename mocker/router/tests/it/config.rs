//! Settings that can't be used.

use dynosim_engine::Nanos;
use dynosim_router::{Event, PolicyConfig, Request, Router, RouterConfig, Target, Tier, WorkerSpec};
use serde_json::{Value, json};

fn problem(value: &Value) -> String {
    RouterConfig::from_json(value).expect_err(&format!("{value} is refused")).to_string()
}

#[test]
fn bad_values_are_refused_with_the_key_and_what_is_allowed() {
    let not_negative = [
        "overlap_score_credit",
        "overlap_score_weight",
        "overlap_score_credit_decay",
        "prefill_load_scale",
        "decode_active_request_weight",
        "router_temperature",
        "router_queue_threshold",
        "conditional_disagg_prefill_busy_threshold",
        "conditional_disagg_decode_busy_threshold",
    ];
    for key in not_negative {
        assert_eq!(
            problem(&json!({ key: -0.5 })),
            format!("router configuration: {key} is -0.5, must be a number of at least 0")
        );
    }
    let shares = [
        "host_cache_hit_weight",
        "disk_cache_hit_weight",
        "shared_cache_multiplier",
        "conditional_disagg_eff_isl_ratio_threshold",
    ];
    for key in shares {
        for value in [-0.1, 1.1] {
            assert_eq!(
                problem(&json!({ key: value })),
                format!("router configuration: {key} is {value}, must be a number from 0 to 1")
            );
        }
    }
    for (key, value) in [("router_ttl_secs", 0), ("router_predicted_ttl_secs", 0), ("router_event_threads", 0)] {
        assert_eq!(
            problem(&json!({ key: value })),
            format!("router configuration: {key} is 0, must be a number above 0")
        );
    }
}

#[test]
fn shapes_and_words_are_checked() {
    let table = [
        (json!({ "overlap_credit": 1 }), "unknown field `overlap_credit`, expected one of `overlap_score_credit`"),
        (
            json!({ "router_queue_policy": "edf" }),
            "router_queue_policy: unknown variant `edf`, expected one of `fcfs`, `lcfs`, `wspt`",
        ),
        (json!({ "router_prefill_load_model": "x" }), "unknown variant `x`, expected one of `none`, `aic`, `ais`"),
        (json!({ "shared_cache_type": "redis" }), "unknown variant `redis`, expected `none` or `hicache`"),
        (json!({ "router_approximate_cache_policy": "lfu" }), "unknown variant `lfu`"),
        (json!({ "use_kv_events": "yes" }), "use_kv_events: invalid type: string \"yes\", expected a boolean"),
        (json!({ "router_temperature": null }), "invalid type: null, expected f64"),
        (json!({ "router_event_threads": -1 }), "invalid value: integer `-1`, expected u32"),
        (json!({ "conditional_disagg_eff_isl_threshold": 1.5 }), "invalid type: floating point `1.5`, expected u64"),
        (json!([1]), "must be an object, is [1]"),
        (json!({ "use_kv_events": false, "router_predicted_ttl_secs": 1 }), "unset without use_kv_events"),
    ];
    for (value, expected) in table {
        let problem = problem(&value);
        assert!(problem.contains(expected), "{value}: {problem}");
    }
}

#[test]
fn keys_are_read_and_set_by_their_published_names() {
    let mut config =
        RouterConfig::from_json(&json!({ "router_prefill_load_model": "ais", "overlap_score_weight": 2 })).unwrap();
    assert_eq!((config.scale(), config.credit()), (2.0, 1.0));
    config.set("overlap_score_weight", &json!(0)).unwrap();
    assert_eq!((config.scale(), config.credit()), (0.0, 0.0));
    assert!(config.set("router_ttl", &json!(1)).unwrap_err().to_string().contains("unknown field `router_ttl`"));
    assert_eq!(RouterConfig::keys().len(), 37);
    let all = Value::Object(config.to_json());
    assert_eq!(RouterConfig::from_json(&all).unwrap(), config);
    let text = |key: &str| config.to_json()[key].to_string();
    assert_eq!(
        (text("router_tracking_hash"), text("router_prefill_load_model")),
        ("\"public-xxh3-v1\"".into(), "\"aic\"".into())
    );
}

#[test]
fn keys_that_change_nothing_are_told() {
    let told = |value: Value| RouterConfig::from_json(&value).unwrap().without_effect();
    assert!(told(json!({})).is_empty());
    let set = json!({ "router_event_threads": 1, "shared_cache_type": "hicache", "router_temperature": 1 });
    assert_eq!(told(set), ["router_event_threads", "shared_cache_type"]);
}

#[test]
fn short_rests_of_prompts_skip_the_prefill_pool_unless_the_rank_is_busy() {
    let skips = |value: Value, prompt: u32, blocks: u64| {
        let config = RouterConfig::from_json(&value).unwrap();
        let mut router = Router::new(config.clone(), 10, 1).unwrap();
        router.add_worker(Nanos::ZERO, WorkerSpec { total_kv_blocks: Some(blocks), ..WorkerSpec::new(1) });
        let event = Event::Stored { parent: None, block_hashes: &[5], tokens_hashes: &[5] };
        router.apply(Target::first(1), Tier::Device, event).unwrap();
        let decision = router.select(Nanos::ZERO, &Request::new(prompt, &[5], &[5])).unwrap();
        config.skips_prefill_pool(&decision, prompt)
    };
    let few = json!({ "conditional_disagg_enabled": true, "conditional_disagg_eff_isl_threshold": 5 });
    assert!(skips(few.clone(), 15, 9) && !skips(few, 16, 9));
    let little = json!({ "conditional_disagg_enabled": true, "conditional_disagg_eff_isl_ratio_threshold": 0.5 });
    assert!(skips(little.clone(), 20, 9) && !skips(little, 21, 9));
    let mut busy = json!({ "conditional_disagg_enabled": true, "conditional_disagg_eff_isl_threshold": 5 });
    busy["conditional_disagg_decode_busy_threshold"] = json!(0.5);
    assert!(skips(busy.clone(), 15, 4) && !skips(busy, 15, 3));
    assert!(!skips(json!({ "conditional_disagg_eff_isl_threshold": 5 }), 15, 9));
}

#[test]
fn policies_that_leave_a_request_without_a_class_are_refused() {
    let policy = |class: Value, buckets: Value| {
        let value = json!({ "default_policy_family": "f", "policy_classes": [class], "uncached_isl_buckets": buckets });
        PolicyConfig::from_json(&value).map_err(|error| error.to_string())
    };
    let class = |change: &[(&str, Value)]| {
        let mut class = json!({
            "name": "c", "policy_family": "f", "cache_bucket": "all", "prefill_busy_threshold": 5, "quantum": 1,
        });
        for (key, value) in change {
            class[*key] = value.clone();
        }
        class
    };
    let all = || json!([{ "bucket": "all", "min_tokens": 0 }]);
    assert!(policy(class(&[]), all()).is_ok());
    let table = [
        (class(&[("queue_policy", json!("lcfs"))]), all(), "must be fcfs or wspt"),
        (class(&[("quantum", json!(0))]), all(), "quantum is 0"),
        (class(&[("prefill_busy_threshold_frac", json!(0.5))]), all(), "needs one of"),
        (class(&[("prefill_busy_threshold", Value::Null)]), all(), "needs one of"),
        (class(&[("cache_bucket", json!("none"))]), all(), "no bucket none"),
        (class(&[("policy_family", json!("g"))]), all(), "no policy class for family f, bucket all"),
        (class(&[("limit", json!(1))]), all(), "unknown field `limit`"),
        (class(&[]), json!([{ "bucket": "all", "min_tokens": 1 }]), "one must have min_tokens 0"),
    ];
    for (class, buckets, expected) in table {
        let problem = policy(class.clone(), buckets).unwrap_err();
        assert!(problem.contains(expected), "{class}: {problem}");
    }
}
