//! Prefill and decode workers of ours and of the published release in one graph, behind the published frontend.

use std::time::Duration;

use dynosim_peers::{free_port, release};
use dynosim_worker::WorkerConfig;
use tokio::time::{Instant, timeout};

use crate::published::Mixed;
use crate::setup::{DEADLINE, until};

/// A transfer of 300 ms for the prompts here: whoever decodes sooner was not handed anything.
const LINK: [&str; 4] = ["--kv-bytes-per-token", "3000000", "--kv-transfer-bandwidth", "1"];
const PROMPT_TOKENS: u32 = 100;
const TRANSFER: Duration = Duration::from_millis(300);
const ENGINES: [&str; 2] = ["vllm", "sglang"];

fn prefill_args(engine: &str, bandwidth: &str) -> String {
    let port = free_port();
    format!(
        r#"{{"engine_type":"{engine}","block_size":16,"worker_type":"prefill","speedup_ratio":100,"enable_local_indexer":true,
            "bootstrap_port":{port},"kv_bytes_per_token":3000000,"kv_transfer_bandwidth":{bandwidth}}}"#
    )
}

fn decode_args(engine: &str) -> String {
    format!(r#"{{"engine_type":"{engine}","block_size":16,"worker_type":"decode","speedup_ratio":100}}"#)
}

/// Part of the KV cache that requests hold.
fn usage(config: &WorkerConfig) -> f64 {
    let name =
        if config.args.engine_type.name() == "sglang" { "sglang:token_usage{" } else { "vllm:kv_cache_usage_perc{" };
    let text = String::from_utf8(config.system.metrics().to_text().expect("metrics")).expect("text");
    let sample = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.rsplit(' ').next());
    sample.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}: {text}"))
}

async fn no_blocks_held(config: &WorkerConfig) {
    until("its blocks are free", || usage(config) == 0.0).await;
}

/// Several requests, one of them twice: each has all its tokens, and not before its KV has come over.
async fn serves(graph: &Mixed, what: &str) {
    let prompt = |letter: char| letter.to_string().repeat(PROMPT_TOKENS as usize);
    for letter in ['a', 'b', 'a'] {
        let start = Instant::now();
        let (status, body) = graph.complete(&prompt(letter), 5).await;
        assert_eq!(status, 200, "{what}: {body}\n{}", graph.log("frontend"));
        assert!(body.contains(r#""completion_tokens":5"#), "{what}: {body}");
        assert!(body.contains(r#""prompt_tokens":100"#), "{what}: {body}");
        assert!(start.elapsed() >= TRANSFER, "{what}: {:?}", start.elapsed());
    }
    let at_once = (0..8).map(|number| async move {
        let (status, body) = graph.complete(&prompt((b'k' + number) as char), 20).await;
        assert_eq!(status, 200, "{what}: {body}");
        assert!(body.contains(r#""completion_tokens":20"#), "{what}: {body}");
    });
    timeout(DEADLINE, futures(at_once)).await.expect("in time");
}

async fn futures<F: Future<Output = ()>>(all: impl Iterator<Item = F>) {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        all.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_prefill_worker_hands_off_to_the_published_decode_worker() {
    let Some(python) = release() else { return };
    for engine in ENGINES {
        let mut graph = Mixed::new(&python).await;
        let (prefill, config) = graph.worker("prefill", &prefill_args(engine, "1")).await;
        graph.mocker("decode", &["--engine-type", engine, "--speedup-ratio", "100"]).await;
        graph.frontend("kv").await;
        serves(&graph, engine).await;
        no_blocks_held(&config).await;
        prefill.drain(DEADLINE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_prefill_worker_hands_off_to_our_decode_worker() {
    let Some(python) = release() else { return };
    for engine in ENGINES {
        let mut graph = Mixed::new(&python).await;
        let (decode, config) = graph.worker("backend", &decode_args(engine)).await;
        graph.mocker("prefill", &[&["--engine-type", engine, "--speedup-ratio", "100"], &LINK[..]].concat()).await;
        graph.frontend("round-robin").await;
        serves(&graph, engine).await;
        no_blocks_held(&config).await;
        decode.drain(DEADLINE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_workers_hand_off_behind_the_published_frontend() {
    let Some(python) = release() else { return };
    for engine in ENGINES {
        let mut graph = Mixed::new(&python).await;
        let (prefill, prefill_config) = graph.worker("prefill", &prefill_args(engine, "1")).await;
        let (decode, decode_config) = graph.worker("backend", &decode_args(engine)).await;
        graph.frontend("kv").await;
        serves(&graph, engine).await;
        no_blocks_held(&prefill_config).await;
        no_blocks_held(&decode_config).await;
        prefill.drain(DEADLINE).await;
        decode.drain(DEADLINE).await;
    }
}

/// Ends a published worker while ours holds blocks for the handoff with it, which takes a minute.
async fn dies_in_the_middle(graph: &Mixed, config: &WorkerConfig, victim: &str) {
    let prompt = "z".repeat(2000);
    let held = async {
        until("blocks are held", || usage(config) > 0.0).await;
        graph.kill(victim);
    };
    let ((status, body), ()) = tokio::join!(graph.complete(&prompt, 5), held);
    assert!(status != 200 || !body.contains(r#""completion_tokens":5"#), "{status} {body}");
    no_blocks_held(config).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_prefill_worker_frees_its_blocks_when_the_published_decode_worker_dies() {
    let Some(python) = release() else { return };
    let mut graph = Mixed::new(&python).await;
    let (prefill, config) = graph.worker("prefill", &prefill_args("vllm", "0.1")).await;
    graph.mocker("decode", &["--speedup-ratio", "100"]).await;
    graph.frontend("kv").await;
    dies_in_the_middle(&graph, &config, "decode").await;
    until("its request is over", || prefill.requests() == 0).await;
    prefill.drain(DEADLINE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_decode_worker_frees_its_blocks_when_the_published_prefill_worker_dies() {
    let Some(python) = release() else { return };
    let mut graph = Mixed::new(&python).await;
    let (decode, config) = graph.worker("backend", &decode_args("vllm")).await;
    graph.mocker("prefill", &["--kv-bytes-per-token", "3000000", "--kv-transfer-bandwidth", "0.1"]).await;
    graph.frontend("kv").await;
    dies_in_the_middle(&graph, &config, "prefill").await;
    until("its request is over", || decode.requests() == 0).await;
    decode.drain(DEADLINE).await;
}
