//! Prefill first, then decode.

use std::sync::atomic::Ordering::SeqCst;

use dynosim_frontend::{FrontendConfig, RoutingMode};
use dynosim_wire::card::WorkerType;
use dynosim_wire::discovery::MemStore;
use dynosim_wire::protocol::PreprocessedRequest;

use crate::client::{completion, post};
use crate::fake::{Conduct, Fake, card, prefill_card, runtime, until};
use crate::fleet::{config, listed, ready, until_instances, until_listed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_get_the_same_meeting_and_the_same_id() {
    let store = MemStore::default();
    let prefill = Fake::start(&store, prefill_card(25_100), Conduct::Prefill).await;
    let decode = Fake::start(&store, card(WorkerType::Decode), Conduct::Serve).await;
    let frontend = ready(config(runtime(&store))).await;
    let mut rooms = Vec::new();
    for _ in 0..2 {
        let answer = post(frontend.address(), &completion(6)).await;
        assert_eq!(answer.events().last().unwrap()["usage"]["completion_tokens"], 6, "{answer:?}");
        let (asked, told) = (prefill.seen.last(), decode.seen.last());
        let meeting = asked.bootstrap_info.clone().expect("a meeting");
        assert_eq!(told.bootstrap_info.as_ref(), Some(&meeting));
        assert_eq!((meeting.bootstrap_host.as_str(), meeting.bootstrap_port), ("127.0.0.1", 25_100));
        assert!(meeting.handoff_id.is_some());
        rooms.push(meeting.bootstrap_room);
        assert_eq!((asked.stop_conditions.max_tokens, told.stop_conditions.max_tokens), (Some(1), Some(6)));
        assert_eq!(asked.token_ids, told.token_ids);
        let hint = |request: &PreprocessedRequest| request.routing.as_ref().and_then(|hints| hints.prefill_worker_id);
        assert_eq!((hint(&asked), hint(&told)), (Some(prefill.id), Some(prefill.id)));
        assert!(told.router_config_override.is_some() && told.prefill_result.is_none());
        let ids = |fake: &Fake| fake.seen.ids.lock().unwrap().last().cloned();
        assert_eq!(ids(&prefill), ids(&decode));
        assert!(uuid::Uuid::try_parse(&ids(&prefill).unwrap()).is_ok());
    }
    assert_ne!(rooms[0], rooms[1]);
    assert_eq!(prefill.seen.cancelled.load(SeqCst), 0);
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_place_to_meet_decode_gets_the_result_of_prefill() {
    let cases =
        [(card(WorkerType::Prefill), RoutingMode::RoundRobin), (prefill_card(25_100), RoutingMode::LeastLoaded)];
    for (prefill_card, routing) in cases {
        let store = MemStore::default();
        let prefill = Fake::start(&store, prefill_card, Conduct::Prefill).await;
        let decode = Fake::start(&store, card(WorkerType::Decode), Conduct::Serve).await;
        let frontend = ready(FrontendConfig { routing, ..config(runtime(&store)) }).await;
        assert_eq!(post(frontend.address(), &completion(6)).await.status, 200);
        assert!(prefill.seen.last().bootstrap_info.is_none());
        let told = decode.seen.last();
        assert_eq!(told.prefill_result.expect("a result").disaggregated_params, "dummy");
        assert!(told.bootstrap_info.is_none());
        frontend.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefill_at_zero_is_a_503_that_says_so_or_decode_serves_alone() {
    let store = MemStore::default();
    let mut prefill = Fake::start(&store, prefill_card(25_100), Conduct::Prefill).await;
    let mut decode = Fake::start(&store, card(WorkerType::Decode), Conduct::Serve).await;
    let frontend = ready(config(runtime(&store))).await;
    // Gone from discovery.
    prefill.leave().await;
    until_listed(&frontend, false).await;
    let refused = post(frontend.address(), &completion(6)).await;
    assert_eq!((refused.status, refused.body.contains("no prefill workers")), (503, true), "{refused:?}");
    assert!(refused.head.contains("retry-after"));
    // Still in discovery, but dead.
    let dead = Fake::start(&store, prefill_card(25_101), Conduct::Prefill).await;
    dead.vanish().await;
    until_listed(&frontend, true).await;
    let refused = post(frontend.address(), &completion(6)).await;
    assert_eq!((refused.status, refused.body.contains("prefill workers")), (503, true), "{refused:?}");
    assert_eq!(decode.seen.count(), 0);
    // A decode worker that needs nobody.
    decode.leave().await;
    let mut own = card(WorkerType::Decode);
    own.needs.clear();
    let own = Fake::start(&store, own, Conduct::Serve).await;
    until_instances(&frontend, 2).await;
    until("it serves alone", || async { post(frontend.address(), &completion(6)).await.status == 200 }).await;
    assert!(own.seen.last().bootstrap_info.is_none() && own.seen.last().prefill_result.is_none());
    assert_eq!(listed(&frontend).await, ["m"]);
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decode_at_zero_is_a_503_that_says_so() {
    let store = MemStore::default();
    let _prefill = Fake::start(&store, prefill_card(25_100), Conduct::Prefill).await;
    let frontend = dynosim_frontend::Frontend::start(config(runtime(&store))).await.unwrap();
    until("the model is known", || async { post(frontend.address(), &completion(6)).await.status == 503 }).await;
    let refused = post(frontend.address(), &completion(6)).await;
    assert!(refused.body.contains("no decode workers"), "{refused:?}");
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefill_worker_that_dies_before_or_during_its_work_is_replaced() {
    for dying in [Conduct::BreakAfter(0), Conduct::BreakAfter(1), Conduct::Fail("no room")] {
        for meets in [true, false] {
            let card_of = |port| if meets { prefill_card(port) } else { card(WorkerType::Prefill) };
            let store = MemStore::default();
            let bad = Fake::start(&store, card_of(25_100), dying.clone()).await;
            let good = Fake::start(&store, card_of(25_101), Conduct::Prefill).await;
            // As a real one, it gives nothing before prefill has handed over: here, only to the good meeting.
            let decode = Fake::start(&store, card(WorkerType::Decode), Conduct::ServeAt(25_101)).await;
            let frontend = ready(config(runtime(&store))).await;
            until_instances(&frontend, 3).await;
            for _ in 0..4 {
                let answer = post(frontend.address(), &completion(6)).await;
                assert_eq!(answer.events().last().unwrap()["usage"]["completion_tokens"], 6, "{dying:?}: {answer:?}");
            }
            assert_eq!((bad.seen.count(), good.seen.count()), (2, 4), "{dying:?}");
            assert!(decode.seen.count() >= 4);
            frontend.shutdown().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefill_worker_that_dies_after_its_work_is_not_missed() {
    let store = MemStore::default();
    let prefill = Fake::start(&store, prefill_card(25_100), Conduct::Silent).await;
    let decode = Fake::start(&store, card(WorkerType::Decode), Conduct::Serve).await;
    let frontend = ready(config(runtime(&store))).await;
    let answer = post(frontend.address(), &completion(6)).await;
    assert_eq!(answer.events().last().unwrap()["usage"]["completion_tokens"], 6);
    assert_eq!((prefill.seen.count(), decode.seen.count()), (1, 1));
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_cancels_prefill_and_decode() {
    let store = MemStore::default();
    let prefill = Fake::start(&store, prefill_card(25_100), Conduct::Silent).await;
    let decode = Fake::start(&store, card(WorkerType::Decode), Conduct::Silent).await;
    let frontend = ready(config(runtime(&store))).await;
    let address = frontend.address();
    let request = tokio::spawn(async move { post(address, &completion(6)).await });
    until("both have it", || async { prefill.seen.count() == 1 && decode.seen.count() == 1 }).await;
    request.abort();
    let told = || prefill.seen.cancelled.load(SeqCst) == 1 && decode.seen.cancelled.load(SeqCst) == 1;
    until("both are told", || async { told() }).await;
    frontend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decode_worker_that_dies_moves_the_request_through_prefill_again() {
    let store = MemStore::default();
    let prefill = Fake::start(&store, prefill_card(25_100), Conduct::Prefill).await;
    let movable = || {
        let mut card = card(WorkerType::Decode);
        card.migration_limit = 1;
        card
    };
    let dying = Fake::start(&store, movable(), Conduct::BreakAfter(4)).await;
    let good = Fake::start(&store, movable(), Conduct::Serve).await;
    let frontend = ready(config(runtime(&store))).await;
    until_instances(&frontend, 3).await;
    for _ in 0..2 {
        let answer = post(frontend.address(), &completion(10)).await;
        let usage = answer.events().last().unwrap()["usage"].clone();
        assert_eq!((usage["prompt_tokens"].as_u64(), usage["completion_tokens"].as_u64()), (Some(3), Some(10)));
    }
    assert_eq!((dying.seen.count(), good.seen.count(), prefill.seen.count()), (1, 2, 3));
    frontend.shutdown().await;
}
