//! Who leaves the queue when.

use dynosim_engine::Nanos;
use dynosim_router::{Request, RouteError, Router, RouterConfig, Submitted, WorkerSpec};
use serde_json::{Value, json};

/// One worker with a budget of 100 tokens, busy above 50; request 0 keeps it busy.
fn busy(policy: &str) -> Router {
    let config = json!({ "router_queue_threshold": 0.5, "router_queue_policy": policy });
    let mut router = Router::new(RouterConfig::from_json(&config).unwrap(), 4, 1).expect("it is valid");
    let spec = WorkerSpec { max_num_batched_tokens: Some(100), ..WorkerSpec::new(1) };
    router.add_worker(Nanos::ZERO, spec);
    let first = router.submit(Nanos::ZERO, 0, &Request::new(60, &[], &[])).unwrap();
    assert!(matches!(first, Submitted::Admitted(_)));
    router
}

fn order(policy: &str, requests: &[Value]) -> Vec<u64> {
    let mut router = busy(policy);
    for (id, request) in (1..).zip(requests) {
        let request = Request {
            priority_jump: request["jump"].as_f64().unwrap_or(0.0),
            strict_priority: request["strict"].as_u64().unwrap_or(0) as u32,
            ..Request::new(request["tokens"].as_u64().unwrap_or(60) as u32, &[], &[])
        };
        assert_eq!(router.submit(Nanos::from_secs(id as f64), id, &request), Ok(Submitted::Waiting));
    }
    let mut order = Vec::new();
    let mut done = 0;
    while order.len() < requests.len() {
        router.free(Nanos::from_secs(100.0), done).unwrap();
        let left: Vec<_> = router.admissions().map(|admission| admission.id).collect();
        assert_eq!(left.len(), 1, "each request makes the worker busy");
        done = left[0];
        order.extend(left);
    }
    assert_eq!(router.waiting().requests, 0);
    order
}

#[test]
fn policies_order_as_they_promise() {
    let lengths = [json!({ "tokens": 90 }), json!({ "tokens": 60 }), json!({ "tokens": 70 })];
    assert_eq!(order("fcfs", &lengths), [1, 2, 3]);
    assert_eq!(order("lcfs", &lengths), [3, 2, 1]);
    assert_eq!(order("wspt", &lengths), [2, 3, 1]);
}

#[test]
fn jumps_are_seconds_and_strict_priorities_come_first() {
    // The third arrives two seconds after the first.
    let jumps = |jump: f64| [json!({}), json!({}), json!({ "jump": jump })];
    assert_eq!(order("fcfs", &jumps(2.5)), [3, 1, 2]);
    assert_eq!(order("fcfs", &jumps(1.5)), [1, 3, 2]);
    assert_eq!(order("fcfs", &jumps(-9.0)), [1, 2, 3]);
    let strict = [json!({ "jump": 50.0 }), json!({ "strict": 1 }), json!({ "strict": 2 })];
    assert_eq!(order("fcfs", &strict), [3, 2, 1]);
}

#[test]
fn waiting_requests_can_be_taken_out_and_their_ids_are_in_use() {
    let mut router = busy("fcfs");
    let request = Request::new(9, &[], &[]);
    assert_eq!(router.submit(Nanos(1), 7, &request), Ok(Submitted::Waiting));
    assert_eq!(router.submit(Nanos(2), 7, &request), Err(RouteError::Conflict));
    assert_eq!(router.waiting().tokens, 9);
    assert!(router.cancel(7) && !router.cancel(7));
    router.free(Nanos(3), 0).unwrap();
    assert_eq!(router.admissions().count(), 0);
    assert_eq!((router.waiting().requests, router.open_requests()), (0, 0));
}

#[test]
fn without_a_budget_a_worker_takes_nothing_while_there_is_a_queue() {
    let config = RouterConfig::from_json(&json!({ "router_queue_threshold": 0 })).unwrap();
    let mut router = Router::new(config, 4, 1).unwrap();
    router.add_worker(Nanos::ZERO, WorkerSpec::new(1));
    assert_eq!(router.submit(Nanos::ZERO, 0, &Request::new(9, &[], &[])), Err(RouteError::NoCandidate));
}

#[test]
fn forgotten_requests_end_and_let_others_go() {
    let mut router = busy("fcfs");
    let request = Request::new(9, &[], &[]);
    assert_eq!(router.submit(Nanos(10), 1, &request), Ok(Submitted::Waiting));
    assert_eq!(router.forget_older(Nanos(50), Nanos(50)), 0);
    assert_eq!(router.forget_older(Nanos(51), Nanos(50)), 1);
    assert_eq!(router.admissions().map(|admission| admission.id).collect::<Vec<_>>(), [1]);
    assert_eq!(router.free(Nanos(60), 0), Err(RouteError::UnknownRequest));
}
