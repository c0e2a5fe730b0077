//! Many streams at once.

use std::sync::Arc;

use dynosim_wire::card::WorkerType;
use dynosim_wire::discovery::MemStore;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::client::{completion, post};
use crate::fake::{Conduct, Fake, card, runtime, until};
use crate::fleet::{config, metric, ready, until_instances};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_run_at_once_and_all_end_whole() {
    const STREAMS: usize = 1000;
    const TOKENS: u32 = 8;
    let store = MemStore::default();
    let permits = Arc::new(Semaphore::new(0));
    let mut fakes = Vec::new();
    for _ in 0..2 {
        fakes.push(Fake::start(&store, card(WorkerType::Aggregated), Conduct::Step(Arc::clone(&permits))).await);
    }
    let frontend = ready(config(runtime(&store))).await;
    until_instances(&frontend, 2).await;
    let address = frontend.address();
    let mut answers = JoinSet::new();
    for _ in 0..STREAMS {
        answers.spawn(async move { post(address, &completion(TOKENS)).await });
    }
    until("all are at workers", || async { fakes.iter().map(|fake| fake.seen.count()).sum::<usize>() == STREAMS })
        .await;
    assert_eq!(metric(&frontend, r#"dynamo_frontend_inflight_requests{model="m"}"#).await, Some(STREAMS as f64));
    permits.add_permits(STREAMS * TOKENS as usize);
    let mut texts = Vec::new();
    while let Some(answer) = answers.join_next().await {
        let answer = answer.unwrap();
        assert_eq!(answer.status, 200);
        texts.push(answer.text());
    }
    assert_eq!(texts.len(), STREAMS);
    assert!(texts.iter().all(|text| *text == texts[0] && !text.is_empty()));
    assert_eq!(fakes[0].seen.count(), fakes[1].seen.count());
    let tokens = metric(&frontend, r#"dynamo_frontend_output_tokens_total{model="m"}"#).await;
    assert_eq!(tokens, Some((STREAMS * TOKENS as usize) as f64));
    assert_eq!(metric(&frontend, r#"dynamo_frontend_inflight_requests{model="m"}"#).await, Some(0.0));
    frontend.shutdown().await;
}
