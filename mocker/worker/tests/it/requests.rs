//! Requests and answers.

use dynosim_wire::protocol::{EngineOutput, FinishReason, RoutingHints, StopConditions};
use dynosim_wire::request::CallError;
use tokio::time::timeout;

use crate::setup::{BLOCK, DEADLINE, Graph, metric, request, until};

const FAST: &str = r#"{"block_size":16,"speedup_ratio":1000,"num_gpu_blocks":64,"enable_local_indexer":true}"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_has_all_tokens_then_why_it_ended_and_what_was_cached() {
    let graph = Graph::new().await;
    let worker = graph.worker(graph.config(FAST)).await;
    let ask = request(0..100, 20);
    let first = graph.ask(&worker, &ask).await.expect("an answer");
    assert_eq!(first.tokens.len(), 20);
    assert!(first.tokens.iter().all(|token| (1000..2000).contains(token)));
    let last = first.outputs.last().expect("an end");
    assert_eq!((last.token_ids.len(), &last.finish_reason), (0, &Some(FinishReason::Length)));
    let usage = last.completion_usage.clone().expect("usage");
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (100, 20, 120));
    assert_eq!(first.cached_tokens(), Some(0));
    assert_eq!(graph.ask(&worker, &ask).await.expect("an answer").cached_tokens(), Some(96));

    // The next turn: prompt, answer, and something new. Its last token was never computed.
    let turn = request((0..100).chain(first.tokens.iter().copied()).chain(0..8), 1);
    assert_eq!(graph.ask(&worker, &turn).await.expect("an answer").cached_tokens(), Some(119 / BLOCK * BLOCK));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_prefix_caching_nothing_is_shared() {
    let graph = Graph::new().await;
    let args = r#"{"block_size":16,"speedup_ratio":1000,"enable_prefix_caching":false}"#;
    let worker = graph.worker(graph.config(args)).await;
    for _ in 0..2 {
        assert_eq!(graph.ask(&worker, &request(0..100, 2)).await.expect("an answer").cached_tokens(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_run_is_refused_with_its_reason() {
    let graph = Graph::new().await;
    let worker = graph.worker(graph.config(FAST)).await;
    for (ask, reason) in [
        (request(0..2000, 1), "request rejected: needs 125 KV blocks, the pool has 64"),
        (request([], 1), "request rejected: prompt and output need at least one token each"),
        (request(0..10, 0), "request rejected: prompt and output need at least one token each"),
    ] {
        let answer = graph.ask(&worker, &ask).await.expect("an answer");
        assert_eq!(answer.reason(), Some(&FinishReason::Error(reason.to_owned())));
    }
    let mut ranked = request(0..10, 1);
    ranked.routing = Some(RoutingHints { dp_rank: Some(1), ..RoutingHints::default() });
    let mut short = request(0..10, 1);
    short.stop_conditions.min_tokens = Some(2);
    for (ask, reason) in [
        (ranked, "dp_rank 1 is out of range (allowed: 0 to 0)"),
        (short, "min_tokens 2 is out of range (allowed: up to max_tokens, 1)"),
    ] {
        match graph.ask(&worker, &ask).await {
            Err(CallError::Failed(why)) => assert!(why.contains(reason), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn max_tokens_is_what_the_model_length_leaves_or_the_default() {
    let graph = Graph::new().await;
    let unlimited = |prompt| {
        let mut ask = request(0..prompt, 1);
        ask.stop_conditions = StopConditions::default();
        ask
    };
    let limited = graph.worker(graph.config(r#"{"max_model_len":150,"speedup_ratio":0}"#)).await;
    assert_eq!(graph.ask(&limited, &unlimited(100)).await.expect("an answer").tokens.len(), 50);
    assert_eq!(graph.ask(&limited, &request(0..100, 70)).await.expect("an answer").tokens.len(), 50);
    let free = graph.worker(graph.config(r#"{"speedup_ratio":0}"#)).await;
    assert_eq!(graph.ask(&free, &unlimited(100)).await.expect("an answer").tokens.len(), 1024);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_or_goes_frees_its_blocks() {
    let graph = Graph::new().await;
    let config = graph.config(r#"{"block_size":16,"num_gpu_blocks":4096}"#);
    let system = config.system.clone();
    let worker = graph.worker(config).await;
    let target = graph.endpoint(worker.id(), "generate").await;
    let call = async |id: &str| {
        let ask = request(0..100, 20_000);
        let mut stream = graph.client.call::<EngineOutput>(&target, id, &ask).await.expect("an answer");
        let first = timeout(DEADLINE, stream.next()).await.expect("in time").expect("not broken");
        assert!(first.is_some());
        stream
    };
    let mut stopped = call("stops").await;
    let gone = call("goes").await;
    until("both run", || worker.requests() == 2).await;
    drop(gone);
    stopped.stop().await;
    let mut last = None;
    while let Some(item) = timeout(DEADLINE, stopped.next()).await.expect("in time").expect("not broken") {
        last = item.data.and_then(|output| output.finish_reason);
    }
    assert_eq!(last, Some(FinishReason::Cancelled));
    until("both are gone", || worker.requests() == 0).await;
    let usage = r#"vllm:kv_cache_usage_perc{engine="0",model_name="test"}"#;
    until("their blocks are free", || metric(&system, usage) == Some(0.0)).await;
    let aborted = r#"vllm:request_success_total{engine="0",finished_reason="abort",model_name="test"}"#;
    assert_eq!(metric(&system, aborted), Some(2.0));
}
