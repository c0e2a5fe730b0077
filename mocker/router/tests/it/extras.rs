//! What a router may have beside its settings.

use dynosim_engine::Nanos;
use dynosim_router::{Extras, PrefillEstimator, Reason, Request, Router, RouterConfig, Target, WorkerSpec};
use serde_json::json;

/// One nanosecond per token.
fn by_token(new_tokens: u32, _cached_tokens: u32) -> Nanos {
    Nanos(u64::from(new_tokens))
}

fn with(config: &serde_json::Value, extras: Extras) -> Result<Router, String> {
    let config = RouterConfig::from_json(config).unwrap();
    let mut router = Router::with(config, 10, 1, extras).map_err(|error| error.to_string())?;
    for worker in 0..2 {
        router.add_worker(Nanos::ZERO, WorkerSpec::new(worker));
    }
    Ok(router)
}

#[test]
fn estimated_prompts_weigh_less_and_less() {
    let estimator: Box<dyn PrefillEstimator> = Box::new(by_token);
    let extras = Extras { estimator: Some(estimator), ..Extras::default() };
    let mut router = with(&json!({ "router_prefill_load_model": "aic" }), extras).unwrap();
    for (id, tokens) in [(1, 100), (2, 40)] {
        router.reserve(Nanos::ZERO, id, Target::first(0), &Request::new(tokens, &[], &[]), Some(tokens)).unwrap();
    }
    let mut loads = Vec::new();
    let mut left = |router: &Router, at| {
        router.loads(Nanos(at), &mut loads);
        loads[0].1.prefill_tokens
    };
    assert_eq!([0, 30, 100, 500].map(|at| left(&router, at)), [140, 110, 40, 40]);
    router.prefill_complete(Nanos(500), 1).unwrap();
    assert_eq!([500, 510, 540].map(|at| left(&router, at)), [40, 30, 0]);
    // A choice sees the load of its time: the other worker is cheaper only while this one computes.
    let request = Request::new(10, &[], &[]);
    assert_eq!(router.select(Nanos(500), &request).unwrap().target, Target::first(1));
    assert_eq!(router.select(Nanos(540), &request).unwrap().reason, Reason::Tie);
}

#[test]
fn what_settings_ask_for_must_be_given() {
    let problem = |config| with(&config, Extras::default()).unwrap_err();
    assert!(
        problem(json!({ "router_prefill_load_model": "aic" }))
            .contains("none where no estimator of durations is given")
    );
    assert!(problem(json!({ "router_policy_config": "p.yaml" })).contains("router_policy_config is p.yaml"));
    assert!(Router::new(RouterConfig::default(), 0, 1).is_err());
}

#[test]
fn sessions_stay_until_they_have_been_idle_for_their_time() {
    let extras = Extras { session_ttl: Some(Nanos(100)), ..Extras::default() };
    let mut router = with(&json!({}), extras).unwrap();
    let request = Request { session: Some("s"), ..Request::new(10, &[], &[]) };
    let first = router.select_and_reserve(Nanos(0), 1, &request).unwrap().target;
    // It is the busier one now.
    for (id, at) in [(2, 90), (3, 180)] {
        let decision = router.select_and_reserve(Nanos(at), id, &request).unwrap();
        assert_eq!((decision.target, decision.reason), (first, Reason::Session));
    }
    let other = router.select(Nanos(280), &request).unwrap();
    assert_eq!((other.target != first, other.reason), (true, Reason::LowestCost));
    // A session goes with its worker.
    router.select_and_reserve(Nanos(290), 4, &request).unwrap();
    router.remove_worker(Nanos(300), other.target.worker).unwrap();
    assert_eq!(router.select(Nanos(310), &request).unwrap().reason, Reason::OnlyCandidate);
}
