//! Prefill and decode workers whose router sends no meeting.

use dynosim_wire::card::WorkerType;
use dynosim_wire::discovery::{Bucket, Record};
use dynosim_wire::protocol::{BootstrapInfo, FinishReason};
use dynosim_worker::Worker;

use crate::setup::{DEADLINE, Graph, metric, request, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_prefill_worker_gives_one_token_and_its_kv_leaves_after_the_transfer() {
    let graph = Graph::new().await;
    let config = graph.config(
        r#"{"block_size":16,"worker_type":"prefill","speedup_ratio":100,"kv_bytes_per_token":1000,
            "kv_transfer_bandwidth":0.01}"#,
    );
    let system = config.system.clone();
    let worker = graph.worker(config).await;
    let start = tokio::time::Instant::now();
    let answer = graph.ask(&worker, &request(0..100, 50)).await.expect("an answer");
    // 100 · 1000 B at 10 MB/s.
    assert!(start.elapsed().as_millis() >= 10);
    assert_eq!((answer.tokens.len(), answer.reason()), (1, Some(&FinishReason::Length)));
    assert_eq!(answer.outputs[0].disaggregated_params, Some("dummy".into()));
    let usage = r#"vllm:kv_cache_usage_perc{engine="0",model_name="test"}"#;
    until("its blocks are free", || metric(&system, usage) == Some(0.0)).await;
    let models = graph.records(Bucket::Models).await;
    let [Record::Model(model)] = &models[..] else { panic!("{models:?}") };
    let card = &model.card_json;
    assert_eq!((card.worker_type, &*card.model_type), (Some(WorkerType::Prefill), ""));
    assert_eq!(card.needs, [[WorkerType::Decode]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decode_worker_computes_the_prompt_itself_if_nobody_else_did() {
    let graph = Graph::new().await;
    let config = graph.config(
        r#"{"block_size":16,"worker_type":"decode","timing_model":{"type":"fixed","prefill_ms":30,"decode_ms":1}}"#,
    );
    let system = config.system.clone();
    let worker = graph.worker(config).await;
    let answer = graph.ask(&worker, &request(0..100, 5)).await.expect("an answer");
    assert_eq!((answer.tokens.len(), answer.reason()), (5, Some(&FinishReason::Length)));
    let first = r#"vllm:time_to_first_token_seconds_sum{engine="0",model_name="test"}"#;
    assert!(metric(&system, first).is_some_and(|seconds| seconds >= 0.03));
    assert!(graph.records(Bucket::EventSources).await.is_empty(), "decode workers publish no KV events");
}

/// A prefill and a decode worker, and what a router tells both about a request.
async fn pair(graph: &Graph, engine: &str) -> (Worker, Worker, BootstrapInfo) {
    let port = dynosim_peers::free_port();
    let prefill = graph.config(&format!(
        r#"{{"engine_type":"{engine}","block_size":16,"worker_type":"prefill","speedup_ratio":10,
             "bootstrap_port":{port},"kv_bytes_per_token":1000,"kv_transfer_bandwidth":0.01}}"#
    ));
    let decode = graph
        .config(&format!(r#"{{"engine_type":"{engine}","block_size":16,"worker_type":"decode","speedup_ratio":10}}"#));
    let info = BootstrapInfo {
        bootstrap_host: "127.0.0.1".to_owned(),
        bootstrap_port: port,
        bootstrap_room: 7,
        handoff_id: Some(uuid::Uuid::from_u128(9)),
    };
    (graph.worker(prefill).await, graph.worker(decode).await, info)
}

#[tokio::test(flavor = "multi_thread")]
async fn kv_goes_from_prefill_to_decode_whoever_comes_first() {
    for engine in ["vllm", "sglang"] {
        for first in [0, 1] {
            let graph = Graph::new().await;
            let (prefill, decode, info) = pair(&graph, engine).await;
            let mut ask = request(0..100, 5);
            ask.bootstrap_info = Some(info);
            let later = async |number: u64| {
                tokio::time::sleep(std::time::Duration::from_millis(if number == first { 0 } else { 100 })).await;
            };
            let (source, destination) = tokio::join!(
                async {
                    later(0).await;
                    graph.ask(&prefill, &ask).await.expect("an answer")
                },
                async {
                    later(1).await;
                    graph.ask(&decode, &ask).await.expect("an answer")
                },
            );
            assert_eq!((source.tokens.len(), source.reason()), (1, Some(&FinishReason::Length)), "{engine} {first}");
            assert_eq!((destination.tokens.len(), destination.reason()), (5, Some(&FinishReason::Length)));
            until("both have let go", || prefill.requests() + decode.requests() == 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decode_worker_whose_source_is_gone_says_so() {
    let graph = Graph::new().await;
    let (prefill, decode, info) = pair(&graph, "vllm").await;
    prefill.drain(DEADLINE).await;
    let mut ask = request(0..100, 5);
    ask.bootstrap_info = Some(info);
    let answer = graph.ask(&decode, &ask).await.expect("an answer");
    assert!(
        matches!(answer.reason(), Some(FinishReason::Error(reason)) if reason.contains("bootstrap connection")),
        "{:?}",
        answer.reason()
    );
    until("it has let go", || decode.requests() == 0).await;
}
