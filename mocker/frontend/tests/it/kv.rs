//! Routing by what workers have cached and what they have to do.

use dynosim_frontend::{Frontend, FrontendConfig, KvConfig, MigrationConfig, RoutingMode};
use dynosim_wire::Runtime;
use dynosim_wire::card::{ModelCard, WorkerType};
use dynosim_wire::discovery::MemStore;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use tokio::sync::Semaphore;

use crate::cache::{BLOCK, Cache};
use crate::client::{completion, get, open, post, post_with, send};
use crate::fake::{Conduct, Fake, card, runtime, until};
use crate::fleet::{config, metric, ready, until_instances};

/// A frontend with the KV router; `keys` are its settings.
pub(crate) fn kv(runtime: Runtime, keys: &Value) -> FrontendConfig {
    let router = dynosim_router::RouterConfig::from_json(keys).unwrap();
    FrontendConfig { routing: RoutingMode::Kv, kv: KvConfig { router, policy: None }, ..config(runtime) }
}

/// A prompt of that many full blocks; prompts of different names share nothing.
pub(crate) fn prompt(name: u32, blocks: usize) -> Vec<u32> {
    (0..blocks * BLOCK).map(|place| 300 + name * 7 + (place as u32 * (name + 3)) % 997).collect()
}

pub(crate) fn asks(tokens: &[u32], output: u32) -> Value {
    let mut body = completion(output);
    body["prompt"] = json!(tokens);
    body
}

/// The choices of the last request.
pub(crate) async fn last_choices(frontend: &Frontend) -> Vec<Value> {
    let names = get(frontend.address(), "/routing/explain").await.json();
    let name = names["requests"][0].as_str().expect("a request").to_owned();
    let choices = get(frontend.address(), &format!("/routing/explain?request={name}")).await.json();
    choices["choices"].as_array().unwrap().clone()
}

pub(crate) async fn until_metric(frontend: &Frontend, series: &str, value: f64) {
    until(series, || async { metric(frontend, series).await.is_some_and(|found| found >= value) }).await;
}

pub(crate) const APPLIED: &str = r#"dynamo_component_kv_cache_events_applied{event_type="stored",status="ok"}"#;
pub(crate) const KNOWN: &str = "dynosim_router_kv_sources";

async fn fleet(store: &MemStore, card: &ModelCard, conducts: &[Conduct]) -> (Vec<Fake>, Vec<Cache>) {
    let (mut fakes, mut caches) = (Vec::new(), Vec::new());
    for conduct in conducts {
        let mut fake = Fake::start(store, card.clone(), conduct.clone()).await;
        caches.push(Cache::of(&mut fake, &runtime(store)).await);
        fakes.push(fake);
    }
    (fakes, caches)
}

fn counts(fakes: &[Fake]) -> Vec<usize> {
    fakes.iter().map(|fake| fake.seen.count()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_goes_where_it_is_cached_until_it_is_evicted() {
    let store = MemStore::default();
    let serve = [Conduct::Serve, Conduct::Serve, Conduct::Serve];
    let (fakes, mut caches) = fleet(&store, &card(WorkerType::Aggregated), &serve).await;
    let frontend = ready(kv(runtime(&store), &json!({}))).await;
    until_instances(&frontend, 6).await;
    until_metric(&frontend, KNOWN, 3.0).await;
    for (holder, name) in [(2, 1), (0, 2), (1, 3)] {
        let before = counts(&fakes);
        caches[holder].store(&prompt(name, 3));
        until_metric(&frontend, APPLIED, f64::from(name)).await;
        for _ in 0..5 {
            assert_eq!(post(frontend.address(), &asks(&prompt(name, 4), 2)).await.status, 200);
        }
        assert_eq!(fakes[holder].seen.count(), before[holder] + 5);
        let choices = last_choices(&frontend).await;
        assert_eq!(choices[0]["decision"]["reason"], "lowest_cost");
        assert_eq!(choices[0]["decision"]["matched"]["device"], 3);
        assert_eq!(choices[0]["candidates"].as_array().unwrap().len(), 3);
    }
    let rate = "dynamo_component_router_kv_hit_rate_sum";
    let page = get(frontend.address(), "/metrics").await.body;
    let sum = page.lines().find(|line| line.starts_with(rate) && line.contains("aggregated")).unwrap();
    assert!(sum.ends_with(" 11.25"), "15 prompts, three quarters of each: {sum}");
    caches[1].remove(&prompt(3, 3));
    let removed = r#"dynamo_component_kv_cache_events_applied{event_type="removed",status="ok"}"#;
    until_metric(&frontend, removed, 1.0).await;
    assert_eq!(post(frontend.address(), &asks(&prompt(3, 4), 2)).await.status, 200);
    assert_eq!(last_choices(&frontend).await[0]["decision"]["matched"]["device"], 0);
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_spreads_and_is_given_back_by_clients_that_go() {
    let store = MemStore::default();
    let (fakes, _caches) = fleet(&store, &card(WorkerType::Aggregated), &[Conduct::Silent, Conduct::Silent]).await;
    let frontend = ready(kv(runtime(&store), &json!({}))).await;
    until_instances(&frontend, 4).await;
    let mut sockets = Vec::new();
    for name in 0..6 {
        sockets.push(send(frontend.address(), &asks(&prompt(name, 4), 2)).await);
        let asked = name as usize + 1;
        until("it is at a worker", || async { counts(&fakes).iter().sum::<usize>() == asked }).await;
    }
    assert_eq!(counts(&fakes), [3, 3]);
    let loads = |choices: &[Value]| -> Vec<u64> {
        let candidates = choices[0]["candidates"].as_array().unwrap();
        candidates.iter().map(|one| one["active_requests"].as_u64().unwrap()).collect()
    };
    assert_eq!(loads(&last_choices(&frontend).await).iter().sum::<u64>(), 5);
    drop(sockets);
    until("all are cancelled", || async {
        fakes.iter().map(|fake| fake.seen.cancelled.load(SeqCst)).sum::<usize>() == 6
    })
    .await;
    let _last = send(frontend.address(), &asks(&prompt(9, 4), 2)).await;
    until("it is at a worker", || async { counts(&fakes).iter().sum::<usize>() == 7 }).await;
    assert_eq!(loads(&last_choices(&frontend).await), [0, 0]);
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frontend_that_starts_anew_knows_what_is_cached() {
    let store = MemStore::default();
    let (fakes, mut caches) =
        fleet(&store, &card(WorkerType::Aggregated), &[Conduct::Serve, Conduct::Serve, Conduct::Serve]).await;
    caches[1].store(&prompt(1, 5));
    for round in 1..3 {
        let frontend = ready(kv(runtime(&store), &json!({}))).await;
        until_metric(&frontend, KNOWN, 3.0).await;
        assert_eq!(post(frontend.address(), &asks(&prompt(1, 5), 2)).await.status, 200);
        assert_eq!(counts(&fakes), [0, round, 0]);
        assert_eq!(last_choices(&frontend).await[0]["decision"]["matched"]["device"], 5);
        frontend.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_were_lost_are_asked_for() {
    let store = MemStore::default();
    let (fakes, mut caches) = fleet(&store, &card(WorkerType::Aggregated), &[Conduct::Serve, Conduct::Serve]).await;
    let frontend = ready(kv(runtime(&store), &json!({}))).await;
    until_instances(&frontend, 4).await;
    until_metric(&frontend, KNOWN, 2.0).await;
    caches[0].store(&prompt(1, 2));
    until_metric(&frontend, APPLIED, 1.0).await;
    caches[0].remember(&prompt(2, 3));
    caches[0].store(&prompt(3, 1));
    until_metric(&frontend, APPLIED, 3.0).await;
    assert_eq!(post(frontend.address(), &asks(&prompt(2, 3), 2)).await.status, 200);
    assert_eq!(counts(&fakes), [1, 0]);
    assert_eq!(last_choices(&frontend).await[0]["decision"]["matched"]["device"], 3);
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_goes_is_forgotten_and_starts_empty_when_another_comes() {
    let store = MemStore::default();
    let (mut fakes, mut caches) = fleet(&store, &card(WorkerType::Aggregated), &[Conduct::Serve, Conduct::Serve]).await;
    caches[0].store(&prompt(1, 4));
    let frontend = ready(kv(runtime(&store), &json!({}))).await;
    until_metric(&frontend, KNOWN, 2.0).await;
    fakes[0].leave().await;
    until_instances(&frontend, 2).await;
    assert_eq!(post(frontend.address(), &asks(&prompt(1, 4), 2)).await.status, 200);
    let choice = last_choices(&frontend).await.remove(0);
    assert_eq!(choice["decision"]["reason"], "only_candidate");
    assert_eq!((&choice["decision"]["matched"]["device"], counts(&fakes)), (&json!(0), vec![0, 1]));
    let (_more, _their_caches) = fleet(&store, &card(WorkerType::Aggregated), &[Conduct::Serve]).await;
    until_instances(&frontend, 4).await;
    assert_eq!(post(frontend.address(), &asks(&prompt(1, 4), 2)).await.status, 200);
    let choice = last_choices(&frontend).await.remove(0);
    assert!(choice["candidates"].as_array().unwrap().iter().all(|one| one["matched"]["device"] == 0), "{choice}");
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_events_the_router_goes_by_its_own_decisions() {
    let store = MemStore::default();
    let mut fakes = Vec::new();
    for _ in 0..3 {
        fakes.push(Fake::start(&store, card(WorkerType::Aggregated), Conduct::Serve).await);
    }
    let frontend = ready(kv(runtime(&store), &json!({"use_kv_events": false}))).await;
    until_instances(&frontend, 3).await;
    for round in 1..6 {
        assert_eq!(post(frontend.address(), &asks(&prompt(1, 3), 2)).await.status, 200);
        let counts = counts(&fakes);
        assert!(counts.contains(&round), "all go to the first one's worker: {counts:?}");
    }
    assert_eq!(last_choices(&frontend).await[0]["decision"]["matched"]["device"], 3);
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_wait_while_all_are_busy_and_leave_the_queue_with_their_client() {
    let store = MemStore::default();
    let permits = Arc::new(Semaphore::new(0));
    let mut card = card(WorkerType::Aggregated);
    card.runtime_config.max_num_batched_tokens = Some(1000);
    let (fakes, _caches) = fleet(&store, &card, &[Conduct::Step(Arc::clone(&permits))]).await;
    let frontend = ready(kv(runtime(&store), &json!({"router_queue_threshold": 0.1}))).await;
    let pending = r#"dynamo_frontend_router_queue_pending_requests{worker_type="aggregated"}"#;
    let tokens = r#"dynamo_frontend_router_queue_pending_isl_tokens{worker_type="aggregated"}"#;
    let first = send(frontend.address(), &asks(&prompt(1, 4), 2)).await;
    until("the first is at the worker", || async { fakes[0].seen.count() == 1 }).await;
    let goes = send(frontend.address(), &asks(&prompt(2, 2), 2)).await;
    until_metric(&frontend, pending, 1.0).await;
    assert_eq!(metric(&frontend, tokens).await, Some(2.0 * BLOCK as f64));
    let stays = tokio::spawn({
        let address = frontend.address();
        async move { post(address, &asks(&prompt(3, 2), 2)).await }
    });
    until_metric(&frontend, pending, 2.0).await;
    drop(goes);
    until("the client's request leaves the queue", || async { metric(&frontend, pending).await == Some(1.0) }).await;
    assert_eq!(fakes[0].seen.count(), 1);
    permits.add_permits(100);
    assert_eq!(stays.await.unwrap().status, 200);
    assert_eq!((fakes[0].seen.count(), metric(&frontend, pending).await), (2, Some(0.0)));
    drop(first);
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_worker_is_not_chosen_again_though_it_has_the_prompt() {
    let store = MemStore::default();
    let (fakes, mut caches) =
        fleet(&store, &card(WorkerType::Aggregated), &[Conduct::BreakAfter(3), Conduct::Serve]).await;
    caches[0].store(&prompt(1, 6));
    let migration = MigrationConfig { limit: Some(1), ..MigrationConfig::default() };
    let frontend = ready(FrontendConfig { migration, ..kv(runtime(&store), &json!({})) }).await;
    until_instances(&frontend, 4).await;
    until_metric(&frontend, KNOWN, 2.0).await;
    let answer = post(frontend.address(), &asks(&prompt(1, 6), 8)).await;
    assert_eq!(answer.events().last().unwrap()["usage"]["completion_tokens"], 8, "{answer:?}");
    assert_eq!(counts(&fakes), [1, 1]);
    let choices = last_choices(&frontend).await;
    assert_eq!((choices.len(), &choices[1]["decision"]["reason"]), (2, &json!("only_candidate")));
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_is_told_the_cost_of_every_worker() {
    let store = MemStore::default();
    let (fakes, mut caches) = fleet(&store, &card(WorkerType::Aggregated), &[Conduct::Serve, Conduct::Serve]).await;
    caches[0].store(&prompt(1, 2));
    let frontend = ready(kv(runtime(&store), &json!({}))).await;
    until_instances(&frontend, 4).await;
    until_metric(&frontend, KNOWN, 2.0).await;
    let headers = "x-dynosim-explain: 1\r\nx-request-id: ask-1";
    let answer = post_with(frontend.address(), headers, &asks(&prompt(1, 4), 2)).await;
    let line = answer.head.lines().find_map(|line| line.strip_prefix("x-dynosim-route: ")).expect("the header");
    let line: Value = serde_json::from_str(line.trim()).unwrap();
    let [has, other] = [format!("{}.0", fakes[0].id), format!("{}.0", fakes[1].id)];
    // 4 blocks to hold; 2 of 4 or all 4 to compute.
    let told = json!([{
        "phase": "aggregated", "chosen": has, "reason": "lowest_cost", "cost": 6.0, "cached_blocks": 2,
        "costs": {has: 6.0, other: 8.0},
    }]);
    assert_eq!(line, told);
    let page = get(frontend.address(), "/routing/explain?request=ask-1").await.json();
    assert_eq!((&page["choices"][0]["prompt_tokens"], &page["choices"][0]["block_size"]), (&json!(256), &json!(64)));
    let quiet = post(frontend.address(), &asks(&prompt(1, 4), 2)).await;
    assert!(!quiet.head.contains("x-dynosim-route"), "{quiet:?}");
    for (path, status) in [("?request=nobody", 404), ("?request=", 400), ("?id=ask-1", 400)] {
        assert_eq!(get(frontend.address(), &format!("/routing/explain{path}")).await.status, status, "{path}");
    }
    frontend.shutdown().await;
    let other = ready(config(runtime(&store))).await;
    assert_eq!(get(other.address(), "/routing/explain").await.status, 404, "no KV router");
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_names_its_worker_goes_there() {
    let store = MemStore::default();
    let mut card = card(WorkerType::Aggregated);
    card.runtime_config.data_parallel_size = 4;
    let (fakes, mut caches) = fleet(&store, &card, &[Conduct::Serve, Conduct::Serve]).await;
    caches[0].store(&prompt(1, 4));
    let frontend = ready(kv(runtime(&store), &json!({}))).await;
    until_instances(&frontend, 4).await;
    until_metric(&frontend, KNOWN, 2.0).await;
    let header = format!("x-worker-instance-id: {}\r\nx-dp-rank: 3", fakes[1].id);
    assert_eq!(post_with(frontend.address(), &header, &asks(&prompt(1, 4), 2)).await.status, 200);
    assert_eq!(fakes[1].seen.last().routing.unwrap().dp_rank, Some(3));
    assert_eq!(post(frontend.address(), &asks(&prompt(1, 4), 2)).await.status, 200);
    assert_eq!(fakes[0].seen.last().routing.unwrap().dp_rank, Some(0), "the rank that has it");
    assert_eq!(counts(&fakes), [1, 1]);
    for (header, said) in [("x-dp-rank: 3", "a rank but no worker"), ("x-worker-instance-id: 5", "worker 5")] {
        let refused = post_with(frontend.address(), header, &asks(&prompt(1, 4), 2)).await;
        assert_eq!((refused.status, refused.body.contains(said)), (400, true), "{refused:?}");
    }
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_cannot_be_used_are_refused_at_the_start() {
    let mut bad = kv(runtime(&MemStore::default()), &json!({}));
    bad.kv.router.router_temperature = -1.0;
    let error = Frontend::start(bad).await.unwrap_err();
    assert_eq!(error.to_string(), "router configuration: router_temperature is -1, must be a number of at least 0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_count_as_they_grow_if_that_is_wanted() {
    for (keys, wanted) in [(json!({}), 2), (json!({"router_track_output_blocks": true}), 4)] {
        let store = MemStore::default();
        let permits = Arc::new(Semaphore::new(2 * BLOCK));
        let (fakes, _caches) = fleet(&store, &card(WorkerType::Aggregated), &[Conduct::Step(permits)]).await;
        let frontend = ready(kv(runtime(&store), &keys)).await;
        let tokens = r#"dynamo_frontend_output_tokens_total{model="m"}"#;
        let streams = open(frontend.address(), &asks(&prompt(1, 2), 300), "data: ").await;
        until_metric(&frontend, tokens, 2.0 * BLOCK as f64).await;
        let next = send(frontend.address(), &asks(&prompt(2, 1), 2)).await;
        until("the next is at the worker", || async { fakes[0].seen.count() == 2 }).await;
        let blocks = &last_choices(&frontend).await[0]["candidates"][0]["decode_blocks"];
        assert_eq!(blocks, &json!(wanted + 1), "{keys}");
        drop((streams, next));
        frontend.shutdown().await;
    }
}
