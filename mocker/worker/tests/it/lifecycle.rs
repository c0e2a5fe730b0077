//! From start to end.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use dynosim_wire::card::WorkerType;
use dynosim_wire::discovery::{Bucket, Record};
use dynosim_wire::protocol::EngineOutput;
use dynosim_wire::request::CallError;
use dynosim_worker::{Metrics, Readiness, Several, System, SystemConfig, Worker};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::setup::{DEADLINE, Graph, request};

#[tokio::test(flavor = "multi_thread")]
async fn a_card_says_what_the_engine_is() {
    let graph = Graph::new().await;
    let mut config = graph.config(
        r#"{"block_size":32,"num_gpu_blocks":77,"max_num_seqs":5,"dp_size":4,"enable_local_indexer":true,
            "max_model_len":900}"#,
    );
    config.model_name = "Some/Name".to_owned();
    let worker = graph.worker(config).await;
    let models = graph.records(Bucket::Models).await;
    let [Record::Model(model)] = &models[..] else { panic!("{models:?}") };
    let card = &model.card_json;
    assert_eq!(model.instance_id, worker.id());
    assert_eq!((&*card.display_name, card.kv_cache_block_size, card.context_length), ("Some/Name", 32, 900));
    assert_eq!((card.worker_type, &*card.model_type), (Some(WorkerType::Aggregated), "Chat | Completions"));
    let engine = &card.runtime_config;
    assert_eq!((engine.total_kv_blocks, engine.max_num_seqs, engine.data_parallel_size), (Some(77), Some(5), 4));
    assert!(engine.enable_local_indexer && engine.kv_event_publishing_enabled);
    let topics = graph.records(Bucket::EventChannels).await.len();
    assert_eq!(topics, 4 + 2, "a channel of KV events per rank, loads, and passes");
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_refuses_new_requests_and_lets_running_ones_end() {
    let graph = Graph::new().await;
    let worker = graph.worker(graph.config(r#"{"timing_model":{"type":"fixed","prefill_ms":1,"decode_ms":20}}"#)).await;
    let target = graph.endpoint(worker.id(), "generate").await;
    let mut stream = graph.client.call::<EngineOutput>(&target, "runs", &request(0..10, 30)).await.expect("an answer");
    assert!(stream.next().await.expect("not broken").is_some());
    let drained = tokio::spawn(worker.drain(DEADLINE));
    let refused = async {
        loop {
            match graph.client.call::<EngineOutput>(&target, "late", &request(0..10, 1)).await {
                Err(CallError::Refused { .. } | CallError::Unreachable { .. }) => return,
                Err(other) => panic!("{other}"),
                Ok(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    };
    timeout(DEADLINE, refused).await.expect("new requests are refused");
    assert!(graph.records(Bucket::Instances).await.is_empty() && graph.records(Bucket::Models).await.is_empty());
    let mut tokens = 1;
    while let Some(item) = timeout(DEADLINE, stream.next()).await.expect("in time").expect("not broken") {
        tokens += item.data.map_or(0, |output| output.token_ids.len());
    }
    assert_eq!(tokens, 30);
    timeout(DEADLINE, drained).await.expect("in time").expect("no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_longer_than_the_grace_time_is_broken_off() {
    let graph = Graph::new().await;
    let worker = graph.worker(graph.config("{}")).await;
    let target = graph.endpoint(worker.id(), "generate").await;
    let mut stream =
        graph.client.call::<EngineOutput>(&target, "runs", &request(0..10, 20_000)).await.expect("an answer");
    assert!(stream.next().await.expect("not broken").is_some());
    timeout(DEADLINE, worker.drain(Duration::from_millis(20))).await.expect("in time");
    let broken = async { while stream.next().await.is_ok_and(|item| item.is_some()) {} };
    timeout(DEADLINE, broken).await.expect("the stream ends");
}

async fn get(system: &System, path: &str) -> String {
    let mut socket = TcpStream::connect(system.address().expect("a port")).await.expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    timeout(DEADLINE, socket.read_to_string(&mut answer)).await.expect("in time").expect("text");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn the_system_port_is_there_before_a_worker_is_ready_and_tells_what_it_does() {
    let graph = Graph::new().await;
    let mut config = graph.config(r#"{"startup_time":0.3,"speedup_ratio":100,"enable_local_indexer":true}"#);
    let metrics = Metrics::new(config.args.engine_type, Several { workers: false, ranks: false }).expect("fresh");
    let system = SystemConfig {
        host: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 0,
        health_path: "/health".to_owned(),
        live_path: "/live".to_owned(),
        required: Vec::new(),
        starts: Readiness::NotReady,
    };
    config.system = System::open(metrics, &system).await.expect("a port");
    let system = config.system.clone();
    let mut worker = Worker::start(config).await.expect("a worker");
    let early = get(&system, "/health").await;
    assert!(early.starts_with("HTTP/1.1 503") && early.contains(r#""generate":"notready""#), "{early}");
    assert!(get(&system, "/live").await.starts_with("HTTP/1.1 200"));
    assert!(graph.records(Bucket::Models).await.is_empty());
    timeout(DEADLINE, worker.ready()).await.expect("in time").expect("ready");
    let late = get(&system, "/health").await;
    assert!(late.starts_with("HTTP/1.1 200") && late.contains(r#""status":"ready""#), "{late}");

    graph.ask(&worker, &request(0..100, 5)).await.expect("an answer");
    let text = get(&system, "/metrics").await;
    for line in [
        r#"dynamo_component_requests_total{dynamo_component="backend",dynamo_endpoint="generate",dynamo_namespace="dynamo",worker_id="#,
        r#"vllm:time_to_first_token_seconds_count{engine="0",model_name="test"} 1"#,
        r#"vllm:inter_token_latency_seconds_count{engine="0",model_name="test"} 4"#,
        r#"vllm:e2e_request_latency_seconds_bucket{engine="0",model_name="test",le="0.3"} 1"#,
        r#"vllm:generation_tokens_total{engine="0",model_name="test"} 5"#,
        r#"vllm:prompt_tokens_total{engine="0",model_name="test"} 100"#,
        r#"vllm:request_success_total{engine="0",finished_reason="length",model_name="test"} 1"#,
        "dynamo_component_uptime_seconds{worker_id=",
        "dynamo_work_handler_time_to_first_response_seconds_count 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }

    // The card's files are served here.
    let models = graph.records(Bucket::Models).await;
    let [Record::Model(model)] = &models[..] else { panic!("{models:?}") };
    let json = serde_json::to_value(&model.card_json).expect("JSON");
    let url = json["tokenizer"]["hf_tokenizer_json"]["path"].as_str().expect("a URL").to_owned();
    let path = url.split_once("/v1/").map(|(_, path)| format!("/v1/{path}")).expect("below /v1/");
    assert!(get(&system, &path).await.contains(r#""version""#), "{url}");
    assert!(get(&system, &path.replace("tokenizer.json", "..")).await.starts_with("HTTP/1.1 404"));
    timeout(DEADLINE, worker.drain(DEADLINE)).await.expect("in time");
    assert!(get(&system, "/health").await.starts_with("HTTP/1.1 503"));
}
