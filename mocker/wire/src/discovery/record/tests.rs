use serde_json::{Value, json};

use super::*;

/// As the published worker (release 1.6.1) writes them.
fn published() -> Vec<(&'static str, Value)> {
    let scope = json!({"kind": "endpoint",
        "endpoint": {"namespace": "dynamo", "component": "backend", "name": "generate"}});
    let query = json!({"component": "backend", "endpoint": "worker_kv_query_source_103bdca8935d1e",
        "namespace": "dynamo", "instance_id": 3_558_584_356_292_333_300_u64,
        "transport": {"tcp": "127.0.0.1:44793/3162a19e2c110ef4/dynamo/backend/worker_kv_query_source_103bdca8935d1e"},
        "device_type": "cuda", "request_plane_codec": "msgpack"});
    let mut query_endpoint = query.clone();
    query_endpoint["type"] = "Endpoint".into();
    let channel = |topic: &str, id: u64| {
        json!({"type": "EventChannel", "scope": scope, "topic": topic, "instance_id": id,
            "transport": {"kind": "Zmq", "config": {"endpoint": "tcp://192.0.2.2:33809"}}})
    };
    vec![
        (
            "v1/instances/dynamo/backend/generate/3162a19e2c110ef4",
            json!({"type": "Endpoint", "component": "backend", "endpoint": "generate", "namespace": "dynamo",
                "instance_id": 3_558_584_356_292_333_300_u64,
                "transport": {"tcp": "127.0.0.1:44793/3162a19e2c110ef4/dynamo/backend/generate"},
                "device_type": "cuda", "request_plane_codec": "msgpack"}),
        ),
        ("v1/instances/dynamo/backend/worker_kv_query_source_103bdca8935d1e/3162a19e2c110ef4", query_endpoint),
        ("v1/mdc/dynamo/backend/generate/3162a19e2c110ef4", model()),
        (
            "v1/event_channels/namespace/dynamo/component/backend/endpoint/generate/topic/kv-events/103bdca8935d1e",
            channel("kv-events", 4_569_418_534_444_318),
        ),
        (
            "v1/event_channels/namespace/dynamo/component/backend/endpoint/generate/topic/kv_metrics/8659815907085",
            channel("kv_metrics", 2_363_503_684_907_141),
        ),
        (
            "v1/event_channels/namespace/dynamo/component/backend/endpoint/generate/topic/forward-pass-metrics/a076ad42dd4b5",
            channel("forward-pass-metrics", 2_822_905_174_807_733),
        ),
        (
            "v1/event_channels/namespace/dynamo/component/backend/endpoint/generate/topic/active_sequences_events/1a119731b2e1d0",
            channel("active_sequences_events", 7_337_690_466_017_744),
        ),
        (
            "v1/event_sources/namespace/dynamo/component/backend/endpoint/generate/topic/kv-events/103bdca8935d1e",
            json!({"type": "EventSource", "scope": scope, "topic": "kv-events",
                "publisher_id": 4_569_418_534_444_318_u64,
                "metadata": {"kv_state_endpoint": scope["endpoint"],
                    "worker": {"worker_id": 3_558_584_356_292_333_300_u64, "dp_rank": 0},
                    "publisher_id": 4_569_418_534_444_318_u64, "recovery_target": query}}),
        ),
    ]
}

fn model() -> Value {
    let file = |name: &str, size: u64| json!({"path": format!("/models/tiny/{name}"), "checksum": format!("blake3:{size:064x}"), "size": size});
    let runtime_config = json!({"context_length": 0, "total_kv_blocks": 16384, "max_num_seqs": 256,
                "max_num_batched_tokens": 8192, "tool_call_parser": null, "reasoning_parser": null,
                "tool_call_arguments_format": "json_string", "structural_tag_mode": "off",
                "structural_tag_scope": "auto", "structural_tag_schema": "auto",
                "exclude_tools_when_tool_choice_none": true, "data_parallel_start_rank": 0,
                "data_parallel_size": 1, "enable_local_indexer": true, "kv_event_publishing_enabled": true,
                "runtime_data": {"output_replay_consumer": true},
                "disaggregated_endpoint": {"bootstrap_host": "127.0.0.1", "bootstrap_port": 25199},
                "enable_eagle": false});
    json!({"type": "Model", "namespace": "dynamo", "component": "backend", "endpoint": "generate",
        "instance_id": 3_558_584_356_292_333_300_u64,
        "card_json": {"display_name": "tiny", "slug": "tiny", "source_path": "/models/tiny",
            "model_info": {"hf_config_json": file("config.json", 369)},
            "tokenizer": {"hf_tokenizer_json": file("tokenizer.json", 5169)},
            "prompt_formatter": {"hf_tokenizer_config_json": file("tokenizer_config.json", 228)},
            "chat_template_file": {"hf_chat_template": {"is_custom": false, "file": file("chat_template.jinja", 15)}},
            "gen_config": {"hf_generation_config_json": file("generation_config.json", 42)},
            "architectural_max_context_length": 32768, "context_length": 0, "kv_cache_block_size": 64,
            "migration_limit": 0, "model_type": "Chat | Completions", "model_input": "Tokens",
            "worker_type": "prefill", "needs": [["decode"]],
            "runtime_config": runtime_config,
            "media_decoder": null, "media_fetcher": null}})
}

/// Records of every kind, as the published worker writes them.
pub(crate) fn samples() -> Vec<Record> {
    let read = |(name, value): (&str, Value)| {
        let key = Key::parse(name).expect(name);
        Record::parse(&key, value.to_string().as_bytes()).expect(name)
    };
    published().into_iter().map(read).collect()
}

#[test]
fn published_records_are_read_and_written_back_unchanged_under_their_own_keys() {
    for (name, value) in published() {
        let key = Key::parse(name).expect(name);
        let record = Record::parse(&key, value.to_string().as_bytes()).expect(name);
        assert_eq!(record.key(), key);
        let written: Value = serde_json::from_slice(&record.to_json().expect(name)).expect(name);
        assert_eq!(written, value, "{name}");
    }
}

#[test]
fn optional_fields_may_be_missing_and_unknown_ones_are_ignored() {
    let key = Key::parse("v1/mdc/dynamo/backend/generate/7/lora").expect("a key");
    let text = json!({"type": "Model", "namespace": "dynamo", "component": "backend", "endpoint": "generate",
        "instance_id": 7, "card_json": {"display_name": "a", "slug": "a", "of_a_later_release": [1]}});
    let Ok(Record::Model(record)) = Record::parse(&key, text.to_string().as_bytes()) else { panic!("no model") };
    assert_eq!(record.card_json.runtime_config, crate::card::RuntimeConfig::default());
    assert_eq!(record.card_json.gen_config, None);
}

#[test]
fn a_record_in_a_place_that_is_not_its_own_is_refused() {
    let (_, endpoint) = published().swap_remove(0);
    let text = endpoint.to_string();
    for (name, reason) in [
        ("v1/mdc/dynamo/backend/generate/3162a19e2c110ef4", "in v1/mdc"),
        ("v1/instances/dynamo/backend/generate/1", "names instance 1"),
        ("v1/instances/dynamo/backend/generate/+1", "no instance"),
        ("v1/instances/dynamo/backend/generate/", "no instance"),
        ("v1/instances/dynamo/backend", "no instance"),
    ] {
        let error = Record::parse(&Key::parse(name).expect(name), text.as_bytes()).expect_err(name).to_string();
        assert!(error.contains(reason) && error.contains(name), "{error}");
    }
}

#[test]
fn a_record_that_is_too_large_is_refused_unread() {
    let key = Key::parse("v1/instances/dynamo/backend/generate/1").expect("a key");
    let error = Record::parse(&key, &vec![b' '; crate::limits::MAX_RECORD_BYTES + 1]).expect_err("too large");
    assert!(error.reason.contains("are allowed"), "{error}");
}

#[test]
fn a_record_that_others_would_skip_is_not_written() {
    let key = Key::parse("v1/instances/dynamo/backend/generate/3162a19e2c110ef4").expect("a key");
    let (_, value) = published().swap_remove(0);
    let Ok(Record::Endpoint(mut record)) = Record::parse(&key, value.to_string().as_bytes()) else { panic!("read") };
    record.endpoint = "g".repeat(crate::limits::MAX_RECORD_BYTES);
    assert!(Record::Endpoint(record).to_json().expect_err("too large").reason.contains("are allowed"));
}

#[test]
fn keys_outside_the_buckets_are_none() {
    for text in ["", "v1/instances", "v1/instances/", "v1/instancesx/a", "v2/instances/a", "a/v1/instances/a"] {
        assert_eq!(Key::parse(text), None, "{text}");
    }
}
