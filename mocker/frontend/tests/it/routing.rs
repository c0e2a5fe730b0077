//! Who gets a request.

use dynosim_frontend::{FrontendConfig, RoutingMode};
use dynosim_wire::card::WorkerType;
use dynosim_wire::discovery::MemStore;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use tokio::sync::Semaphore;

use crate::client::{completion, open, post, post_with, send};
use crate::fake::{Conduct, Fake, card, runtime, until};
use crate::fleet::{config, metric, ready, until_instances};

async fn fleet(store: &MemStore, conducts: &[Conduct]) -> Vec<Fake> {
    let mut fakes = Vec::new();
    for conduct in conducts {
        fakes.push(Fake::start(store, card(WorkerType::Aggregated), conduct.clone()).await);
    }
    fakes
}

fn counts(fakes: &[Fake]) -> Vec<usize> {
    fakes.iter().map(|fake| fake.seen.count()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn round_robin_is_fair_to_the_request() {
    let store = MemStore::default();
    let fakes = fleet(&store, &[Conduct::Serve, Conduct::Serve, Conduct::Serve]).await;
    let frontend = ready(config(runtime(&store))).await;
    until_instances(&frontend, 3).await;
    for _ in 0..30 {
        assert_eq!(post(frontend.address(), &completion(2)).await.status, 200);
    }
    assert_eq!(counts(&fakes), [10, 10, 10]);
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_reaches_everyone_and_follows_its_seed() {
    let mut drawn = Vec::new();
    for _ in 0..2 {
        let store = MemStore::default();
        let fakes = fleet(&store, &[Conduct::Serve, Conduct::Serve, Conduct::Serve]).await;
        let frontend = ready(FrontendConfig { routing: RoutingMode::Random, ..config(runtime(&store)) }).await;
        until_instances(&frontend, 3).await;
        for _ in 0..30 {
            assert_eq!(post(frontend.address(), &completion(2)).await.status, 200);
        }
        let mut counts = counts(&fakes);
        assert!(counts.iter().all(|count| (2..20).contains(count)), "{counts:?}");
        counts.sort_unstable();
        drawn.push(counts);
        frontend.shutdown().await;
    }
    assert_eq!(drawn[0], drawn[1], "ids differ from run to run, but not how often each place is drawn");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn least_loaded_avoids_a_worker_that_is_busy() {
    for routing in [RoutingMode::LeastLoaded, RoutingMode::PowerOfTwo] {
        let store = MemStore::default();
        let fakes = fleet(&store, &[Conduct::Silent]).await;
        let frontend = ready(FrontendConfig { routing, ..config(runtime(&store)) }).await;
        let mut busy = Vec::new();
        for _ in 0..4 {
            busy.push(send(frontend.address(), &completion(2)).await);
        }
        until("four requests wait", || async { fakes[0].seen.count() == 4 }).await;
        let free = fleet(&store, &[Conduct::Serve]).await;
        until_instances(&frontend, 2).await;
        let before = fakes[0].seen.count();
        let mut lucky = 0;
        for _ in 0..8 {
            // Two draws may both fall on the busy one; its silence must not hold the test up.
            let asked = free[0].seen.count() + fakes[0].seen.count();
            let request = tokio::spawn({
                let address = frontend.address();
                async move { post(address, &completion(2)).await }
            });
            until("the request is at a worker", || async { free[0].seen.count() + fakes[0].seen.count() > asked })
                .await;
            if fakes[0].seen.count() == before + lucky {
                assert_eq!(request.await.unwrap().status, 200);
            } else {
                request.abort();
                lucky += 1;
            }
        }
        let most = if routing == RoutingMode::LeastLoaded { 0 } else { 6 };
        assert!(lucky <= most, "{routing:?}: {lucky} of 8 went to the busy worker");
        drop(busy);
        until("all are cancelled", || async { fakes[0].seen.cancelled.load(SeqCst) == 4 + lucky }).await;
        frontend.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn direct_goes_where_the_request_says() {
    let store = MemStore::default();
    let fakes = fleet(&store, &[Conduct::Serve, Conduct::Serve]).await;
    let frontend = ready(FrontendConfig { routing: RoutingMode::Direct, ..config(runtime(&store)) }).await;
    until_instances(&frontend, 2).await;
    let mut body = completion(2);
    for _ in 0..3 {
        let header = format!("x-worker-instance-id: {}", fakes[1].id);
        assert_eq!(post_with(frontend.address(), &header, &body).await.status, 200);
    }
    let nobody = post(frontend.address(), &body).await;
    assert_eq!((nobody.status, nobody.body.contains("names no worker")), (400, true), "{nobody:?}");
    let stranger = post_with(frontend.address(), "x-dynamo-worker-instance-id: 5", &body).await;
    assert_eq!((stranger.status, stranger.body.contains("worker 5")), (400, true), "{stranger:?}");
    body["nvext"] = json!({"backend_instance_id": fakes[0].id});
    assert_eq!(post(frontend.address(), &body).await.status, 200);
    assert_eq!(counts(&fakes), [1, 3]);
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_refuse_or_are_gone_are_skipped_at_once() {
    let store = MemStore::default();
    let fakes = fleet(&store, &[Conduct::Serve, Conduct::Serve, Conduct::Serve]).await;
    let frontend = ready(config(runtime(&store))).await;
    until_instances(&frontend, 3).await;
    fakes[0].refuse().await;
    fakes[1].vanish().await;
    for _ in 0..12 {
        assert_eq!(post(frontend.address(), &completion(2)).await.status, 200);
    }
    assert_eq!(counts(&fakes), [0, 0, 12]);
    fakes[2].refuse().await;
    let refused = post(frontend.address(), &completion(2)).await;
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("none of its workers takes the request"), "{refused:?}");
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_cancels_the_work() {
    let store = MemStore::default();
    let permits = Arc::new(Semaphore::new(1));
    let fakes = fleet(&store, &[Conduct::Step(permits)]).await;
    let frontend = ready(config(runtime(&store))).await;
    let socket = open(frontend.address(), &completion(50), "data: ").await;
    drop(socket);
    until("the worker is told", || async { fakes[0].seen.cancelled.load(SeqCst) == 1 }).await;
    let series = r#"dynamo_frontend_model_cancellation_total{endpoint="completions",model="m",request_type="stream"}"#;
    until("the metric", || async { metric(&frontend, series).await == Some(1.0) }).await;
    assert_eq!(metric(&frontend, r#"dynamo_frontend_inflight_requests{model="m"}"#).await, Some(0.0));
    frontend.shutdown().await;
}
