//! Frontends of tests, and which models they list.

use dynosim_frontend::{
    Buckets, DEFAULT_GRACE, DEFAULT_IDLE_LIMIT, DEFAULT_METRICS_PREFIX, DEFAULT_SEED, Frontend, FrontendConfig,
    KvConfig, MigrationConfig, NamespaceScope, RoutingMode,
};
use dynosim_wire::card::WorkerType;
use dynosim_wire::discovery::MemStore;
use dynosim_wire::{DiscoveryConfig, Runtime};
use std::time::Duration;

use crate::client::{completion, get, post};
use crate::fake::{Conduct, Fake, card, runtime, runtime_at, until};

pub(crate) fn config(runtime: Runtime) -> FrontendConfig {
    FrontendConfig {
        runtime,
        address: ([127, 0, 0, 1], 0).into(),
        routing: RoutingMode::RoundRobin,
        kv: KvConfig::default(),
        scope: NamespaceScope::All,
        migration: MigrationConfig::default(),
        min_initial_workers: 0,
        metrics_prefix: DEFAULT_METRICS_PREFIX.to_owned(),
        buckets: Buckets::default(),
        seed: DEFAULT_SEED,
        body_limit: None,
        idle_limit: DEFAULT_IDLE_LIMIT,
        grace: DEFAULT_GRACE,
    }
}

/// A frontend that lists model `m`.
pub(crate) async fn ready(config: FrontendConfig) -> Frontend {
    let frontend = Frontend::start(config).await.unwrap();
    until_listed(&frontend, true).await;
    frontend
}

pub(crate) async fn until_listed(frontend: &Frontend, wanted: bool) {
    until("the model's listing", || async { listed(frontend).await.contains(&"m".to_owned()) == wanted }).await;
}

pub(crate) async fn listed(frontend: &Frontend) -> Vec<String> {
    let models = get(frontend.address(), "/v1/models").await.json();
    let names = models["data"].as_array().unwrap().iter();
    names.map(|model| model["id"].as_str().unwrap().to_owned()).collect()
}

/// Waits until the frontend knows of that many instances.
pub(crate) async fn until_instances(frontend: &Frontend, count: usize) {
    let there =
        || async { get(frontend.address(), "/health").await.json()["instances"].as_array().unwrap().len() == count };
    until("instances on /health", there).await;
}

/// The value of a series.
pub(crate) async fn metric(frontend: &Frontend, series: &str) -> Option<f64> {
    let page = get(frontend.address(), "/metrics").await.body;
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_goes_with_its_last_worker_and_comes_back_with_the_next() {
    let store = MemStore::default();
    let frontend = Frontend::start(config(runtime(&store))).await.unwrap();
    assert_eq!(post(frontend.address(), &completion(3)).await.status, 404, "never heard of");
    let mut worker = Fake::start(&store, card(WorkerType::Aggregated), Conduct::Serve).await;
    until_listed(&frontend, true).await;
    assert_eq!(post(frontend.address(), &completion(3)).await.status, 200);
    worker.leave().await;
    until_listed(&frontend, false).await;
    let refused = post(frontend.address(), &completion(3)).await;
    assert_eq!(refused.status, 503);
    assert!(refused.head.contains("retry-after: 1"), "{refused:?}");
    assert!(refused.body.contains("model `m` is not ready: it has no workers"), "{refused:?}");
    assert_eq!(metric(&frontend, r#"dynamo_frontend_model_ready{model="m"}"#).await, Some(0.0));
    let _back = Fake::start(&store, card(WorkerType::Aggregated), Conduct::Serve).await;
    until_listed(&frontend, true).await;
    assert_eq!(post(frontend.address(), &completion(3)).await.status, 200);
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_whose_cards_differ_are_not_mixed() {
    let store = MemStore::default();
    let mut first = Fake::start(&store, card(WorkerType::Aggregated), Conduct::Serve).await;
    let frontend = ready(config(runtime(&store))).await;
    let mut other = card(WorkerType::Aggregated);
    other.kv_cache_block_size = 16;
    let second = Fake::start(&store, other, Conduct::Serve).await;
    until_instances(&frontend, 2).await;
    for _ in 0..6 {
        assert_eq!(post(frontend.address(), &completion(2)).await.status, 200);
    }
    assert_eq!((first.seen.count(), second.seen.count()), (6, 0));
    first.leave().await;
    until_instances(&frontend, 1).await;
    until("the second's turn", || async { post(frontend.address(), &completion(2)).await.status == 200 }).await;
    assert_eq!((first.seen.count(), second.seen.count()), (6, 1));
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_are_kept_apart() {
    let store = MemStore::default();
    let runtime = runtime(&store);
    let _one = Fake::start_in("team-a", &runtime, card(WorkerType::Aggregated), Conduct::Serve).await;
    let one = card_named("other");
    let _two = Fake::start_in("team", &runtime, one, Conduct::Serve).await;
    let scoped = |scope| FrontendConfig { scope, ..config(runtime.clone()) };
    let cases = [
        (NamespaceScope::All, vec!["m", "other"]),
        (NamespaceScope::Exact("team".to_owned()), vec!["other"]),
        (NamespaceScope::Exact("te".to_owned()), vec![]),
        (NamespaceScope::Prefix("team".to_owned()), vec!["m", "other"]),
        (NamespaceScope::Prefix("team-".to_owned()), vec!["m"]),
    ];
    for (scope, wanted) in cases {
        let frontend = Frontend::start(scoped(scope.clone())).await.unwrap();
        until(&format!("{scope:?}"), || async { listed(&frontend).await == wanted }).await;
        frontend.shutdown().await;
    }
}

fn card_named(name: &str) -> dynosim_wire::card::ModelCard {
    let mut card = card(WorkerType::Aggregated);
    name.clone_into(&mut card.display_name);
    name.clone_into(&mut card.slug);
    card
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_waits_for_its_first_workers() {
    let store = MemStore::default();
    let frontend = Frontend::start(FrontendConfig { min_initial_workers: 2, ..config(runtime(&store)) }).await.unwrap();
    let _one = Fake::start(&store, card(WorkerType::Aggregated), Conduct::Serve).await;
    until("the model is known", || async { post(frontend.address(), &completion(2)).await.status == 503 }).await;
    let mut two = Fake::start(&store, card(WorkerType::Aggregated), Conduct::Serve).await;
    until_listed(&frontend, true).await;
    two.leave().await;
    until_instances(&frontend, 1).await;
    assert_eq!(post(frontend.address(), &completion(2)).await.status, 200, "one is enough from then on");
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_discovery_serves_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let at = DiscoveryConfig::File { root: folder.path().to_owned(), ttl: Duration::from_secs(10) };
    let runtime = runtime_at(at);
    let frontend = Frontend::start(config(runtime.clone())).await.unwrap();
    let mut worker = Fake::start_in("dynamo", &runtime, card(WorkerType::Aggregated), Conduct::Serve).await;
    until_listed(&frontend, true).await;
    assert_eq!(post(frontend.address(), &completion(3)).await.status, 200);
    let health = get(frontend.address(), "/health").await.json();
    assert_eq!(health["status"], "healthy");
    assert_eq!(health["endpoints"][0], "dyn://dynamo.backend.generate");
    assert_eq!(health["instances"][0]["instance_id"], worker.id);
    assert_eq!(health["instances"][0]["request_plane_codec"], "msgpack");
    assert_eq!(get(frontend.address(), "/live").await.json()["status"], "live");
    worker.leave().await;
    until_listed(&frontend, false).await;
    frontend.shutdown().await;
}
