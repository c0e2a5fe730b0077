//! Choosing a rank allocates nothing once buffers have grown, whatever the prompt.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use dynosim_engine::{Nanos, hash::mix};
use dynosim_router::{Event, Request, Router, RouterConfig, Target, Tier, WorkerSpec};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const WORKERS: u64 = 8;

/// Every worker has some of the prompts, host memory goes on with one of them, and requests are open.
fn loaded(config: &serde_json::Value, prompts: &[Vec<u64>]) -> Router {
    let mut router = Router::new(RouterConfig::from_json(config).unwrap(), 16, 1).unwrap();
    for worker in 0..WORKERS {
        router.add_worker(Nanos::ZERO, WorkerSpec::new(worker));
    }
    for (turn, prompt) in (0..).zip(prompts) {
        let target = Target::first(turn % WORKERS);
        let device = &prompt[..prompt.len() / 2];
        let event = Event::Stored { parent: None, block_hashes: device, tokens_hashes: device };
        router.apply(target, Tier::Device, event).unwrap();
        let host = &prompt[prompt.len() / 2..];
        let event = Event::Stored { parent: device.last().copied(), block_hashes: host, tokens_hashes: host };
        router.apply(target, Tier::Host, event).unwrap();
        let request = Request::new(prompt.len() as u32 * 16, prompt, prompt);
        router.select_and_reserve(Nanos::ZERO, turn, &request).unwrap();
    }
    router
}

#[test]
fn a_choice_allocates_nothing() {
    let prompts: Vec<Vec<u64>> =
        (0..40).map(|turn| (0..60).map(|at| mix(if at < 20 { 1 } else { turn }, at)).collect()).collect();
    let unknown: Vec<u64> = (0..200).map(|at| mix(99, at)).collect();
    let _profiler = dhat::Profiler::builder().testing().build();
    let settings = [
        json!({}),
        json!({ "router_temperature": 0.5 }),
        json!({ "use_kv_events": false }),
        json!({ "router_predicted_ttl_secs": 9 }),
    ];
    for config in settings {
        let mut router = loaded(&config, &prompts);
        let (mut overlap, mut loads) = (Vec::new(), Vec::new());
        let mut round = |router: &mut Router| {
            for prompt in prompts.iter().chain([&unknown]) {
                let request = Request::new(prompt.len() as u32 * 16, prompt, prompt);
                router.select(Nanos(1), &request).unwrap();
                router.overlap(Nanos(1), prompt, &mut overlap);
                router.potential_loads(Nanos(1), &request, &mut loads).unwrap();
            }
        };
        round(&mut router);
        let before = dhat::HeapStats::get().total_blocks;
        round(&mut router);
        assert_eq!(dhat::HeapStats::get().total_blocks - before, 0, "{config}");
        router.select(Nanos(1), &Request::new(960, &prompts[0], &prompts[0])).unwrap();
        assert!(
            router.candidates().iter().any(|candidate| candidate.matched.device > 0),
            "something was there to find"
        );
    }
}
