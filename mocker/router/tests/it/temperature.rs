//! What is left to chance.

use std::collections::BTreeMap;

use dynosim_engine::Nanos;
use dynosim_router::{Event, Reason, Request, Router, RouterConfig, Target, Tier, WorkerSpec, probabilities};
use serde_json::json;

const BLOCKS: [u64; 8] = [11, 12, 13, 14, 15, 16, 17, 18];

/// Worker `w` of four has the first 2·w of eight blocks.
fn router(temperature: f64, seed: u64) -> Router {
    let config = RouterConfig::from_json(&json!({ "router_temperature": temperature })).unwrap();
    let mut router = Router::new(config, 4, seed).unwrap();
    for worker in 0..4 {
        router.add_worker(Nanos::ZERO, WorkerSpec::new(worker));
        let held = &BLOCKS[..2 * worker as usize];
        let event = Event::Stored { parent: None, block_hashes: held, tokens_hashes: held };
        router.apply(Target::first(worker), Tier::Device, event).unwrap();
    }
    router
}

fn draw(router: &mut Router, draws: u32) -> BTreeMap<u64, f64> {
    let request = Request::new(33, &BLOCKS, &BLOCKS);
    let mut seen = BTreeMap::new();
    for _ in 0..draws {
        *seen.entry(router.select(Nanos::ZERO, &request).unwrap().target.worker).or_insert(0.0) += 1.0;
    }
    seen
}

#[test]
fn a_temperature_spreads_by_softmax() {
    for temperature in [0.2, 0.5, 1.0, 3.0] {
        let mut router = router(temperature, 5);
        let draws = 20_000;
        let seen = draw(&mut router, draws);
        // Costs are 2 blocks apart over a spread of 6.
        let weights: Vec<f64> = (0..4).map(|worker| (f64::from(worker) * 2.0 / 6.0 / temperature).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let mut shares = Vec::new();
        probabilities(router.candidates(), temperature, &mut shares);
        let mut chi = 0.0;
        for (worker, weight) in (0..).zip(&weights) {
            let expected = f64::from(draws) * weight / sum;
            assert!((shares[worker as usize] - weight / sum).abs() < 1e-12);
            chi += (seen.get(&worker).copied().unwrap_or(0.0) - expected).powi(2) / expected;
        }
        // Chi-squared with three degrees of freedom exceeds this once in a hundred thousand times.
        assert!(chi < 25.9, "temperature {temperature}: chi-squared is {chi}");
    }
}

#[test]
fn without_temperature_the_cheapest_wins_and_nothing_is_drawn() {
    let mut router = router(0.0, 5);
    let request = Request::new(33, &BLOCKS, &BLOCKS);
    for _ in 0..100 {
        let decision = router.select(Nanos::ZERO, &request).unwrap();
        assert_eq!((decision.target.worker, decision.reason), (3, Reason::LowestCost));
    }
    // A tie after many choices falls as the first one would have.
    let mut fresh = self::router(0.0, 5);
    let unknown = Request::new(3, &[], &[]);
    let first: Vec<_> = (0..20).map(|_| fresh.select(Nanos::ZERO, &unknown).unwrap().target).collect();
    let later: Vec<_> = (0..20).map(|_| router.select(Nanos::ZERO, &unknown).unwrap().target).collect();
    assert_eq!(first, later);
}

#[test]
fn ties_fall_evenly_and_by_the_seed() {
    let unknown = Request::new(3, &[], &[]);
    let run = |seed| {
        let mut router = router(0.0, seed);
        (0..8000).map(|_| router.select(Nanos::ZERO, &unknown).unwrap().target.worker).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let choices = run(1);
    for worker in 0..4 {
        let count = choices.iter().filter(|&&chosen| chosen == worker).count();
        assert!((1800..2200).contains(&count), "worker {worker}: {count}");
    }
}
