//! Requests whose workers die.

use std::sync::Arc;

use dynosim_frontend::{Frontend, FrontendConfig, MigrationConfig};
use dynosim_wire::card::{ModelCard, WorkerType};
use dynosim_wire::discovery::MemStore;
use serde_json::Value;

use crate::client::{Answer, completion, post};
use crate::fake::{Conduct, Fake, card, runtime};
use crate::fleet::{config, metric, ready, until_instances};

const TOKENS: u32 = 20;

fn movable(limit: u32) -> ModelCard {
    let mut card = card(WorkerType::Aggregated);
    card.migration_limit = limit;
    card
}

async fn fleet(store: &MemStore, limit: u32, conducts: &[Conduct]) -> (Vec<Fake>, Frontend) {
    let mut fakes = Vec::new();
    for conduct in conducts {
        fakes.push(Fake::start(store, movable(limit), conduct.clone()).await);
    }
    let frontend = ready(config(runtime(store))).await;
    until_instances(&frontend, conducts.len()).await;
    (fakes, frontend)
}

/// What an undisturbed worker answers.
async fn undisturbed() -> Answer {
    let store = MemStore::default();
    let (_fakes, frontend) = fleet(&store, 0, &[Conduct::Serve]).await;
    let answer = post(frontend.address(), &completion(TOKENS)).await;
    frontend.shutdown().await;
    answer
}

fn usage(answer: &Answer) -> Value {
    let events = answer.events();
    events.last().unwrap()["usage"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_in_midst_of_a_stream_costs_no_token_and_doubles_none() {
    let whole = undisturbed().await;
    let store = MemStore::default();
    let (fakes, frontend) = fleet(&store, 3, &[Conduct::BreakAfter(7), Conduct::Serve]).await;
    // Whoever is first, both orders are seen.
    for _ in 0..4 {
        let answer = post(frontend.address(), &completion(TOKENS)).await;
        assert_eq!(answer.text(), whole.text());
        assert_eq!(usage(&answer), usage(&whole), "usage is that of the client's prompt");
    }
    let moved =
        fakes[1].seen.requests.lock().unwrap().iter().filter(|request| request.token_ids.len() == 3 + 7).count();
    assert_eq!(moved, 2);
    let series = r#"dynamo_frontend_model_migration_total{migration_type="ongoing_request",model="m"}"#;
    assert_eq!(metric(&frontend, series).await, Some(2.0));
    let series = r#"dynamo_frontend_model_migration_duration_seconds_count{migration_type="ongoing_request",model="m",outcome="success"}"#;
    assert_eq!(metric(&frontend, series).await, Some(2.0));
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_deaths_in_a_row_are_survived_within_the_limit() {
    let whole = undisturbed().await;
    let store = MemStore::default();
    let dying = [Conduct::BreakAfter(3), Conduct::BreakAfter(3), Conduct::BreakAfter(0), Conduct::Serve];
    let (_fakes, frontend) = fleet(&store, 3, &dying).await;
    for _ in 0..4 {
        let answer = post(frontend.address(), &completion(TOKENS)).await;
        assert_eq!((answer.text(), usage(&answer)), (whole.text(), usage(&whole)));
    }
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_the_limit_the_stream_ends_with_an_error() {
    let store = MemStore::default();
    let (fakes, frontend) = fleet(&store, 1, &[Conduct::BreakAfter(3), Conduct::BreakAfter(3), Conduct::Serve]).await;
    let mut failed = 0;
    for _ in 0..3 {
        let answer = post(frontend.address(), &completion(TOKENS)).await;
        failed += usize::from(answer.body.contains("broke off"));
    }
    // Of three neighbours in a ring, one has two dying workers before it.
    assert_eq!(failed, 1);
    assert_eq!(fakes[2].seen.count(), 2);
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_flag_wins_over_the_card() {
    let store = MemStore::default();
    let fakes = [
        Fake::start(&store, movable(3), Conduct::BreakAfter(3)).await,
        Fake::start(&store, movable(3), Conduct::BreakAfter(3)).await,
    ];
    let migration = MigrationConfig { limit: Some(0), max_sequence_tokens: None };
    let frontend = ready(FrontendConfig { migration, ..config(runtime(&store)) }).await;
    until_instances(&frontend, 2).await;
    let answer = post(frontend.address(), &completion(TOKENS)).await;
    assert!(answer.body.contains("broke off"), "{answer:?}");
    assert_eq!(fakes.iter().map(|fake| fake.seen.count()).sum::<usize>(), 1);
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_end_is_made_good_without_another_worker() {
    let whole = undisturbed().await;
    let store = MemStore::default();
    let (fakes, frontend) = fleet(&store, 0, &[Conduct::BreakAfter(TOKENS)]).await;
    let answer = post(frontend.address(), &completion(TOKENS)).await;
    assert_eq!(answer.text(), whole.text());
    let last = &answer.events()[answer.events().len() - 2];
    assert_eq!(last["choices"][0]["finish_reason"], "length", "{answer:?}");
    assert_eq!(usage(&answer)["completion_tokens"], TOKENS);
    assert_eq!(fakes[0].seen.count(), 1);
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_worker_is_lost_after_the_idle_limit() {
    let store = MemStore::default();
    let fakes =
        [Fake::start(&store, movable(1), Conduct::Silent).await, Fake::start(&store, movable(1), Conduct::Serve).await];
    let idle_limit = std::time::Duration::from_millis(200);
    let frontend = ready(FrontendConfig { idle_limit, ..config(runtime(&store)) }).await;
    until_instances(&frontend, 2).await;
    for _ in 0..2 {
        assert_eq!(usage(&post(frontend.address(), &completion(5)).await)["completion_tokens"], 5);
    }
    let cancelled = || fakes[0].seen.cancelled.load(std::sync::atomic::Ordering::SeqCst);
    crate::fake::until("the silent one is told to stop", || async { cancelled() == 1 }).await;
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_fails_is_believed() {
    let store = MemStore::default();
    let (fakes, frontend) = fleet(&store, 3, &[Conduct::Fail("out of memory"), Conduct::Fail("out of memory")]).await;
    let answer = post(frontend.address(), &completion(5)).await;
    assert!(answer.body.contains("out of memory"), "{answer:?}");
    assert_eq!(fakes.iter().map(|fake| fake.seen.count()).sum::<usize>(), 1, "another would fail too");
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_worker_ends_what_it_has() {
    let store = MemStore::default();
    let permits = Arc::new(tokio::sync::Semaphore::new(1));
    let (mut fakes, frontend) = fleet(&store, 0, &[Conduct::Step(Arc::clone(&permits))]).await;
    let address = frontend.address();
    let running = tokio::spawn(async move { post(address, &completion(5)).await });
    crate::fake::until("the request is there", || async { fakes[0].seen.count() == 1 }).await;
    fakes[0].leave().await;
    until_instances(&frontend, 0).await;
    permits.add_permits(10);
    assert_eq!(usage(&running.await.unwrap())["completion_tokens"], 5);
    frontend.shutdown().await;
}
