//! Routed requests per second as in an offline run: choice, reservation, events, end.
//!
//! `cargo bench -p dynosim-router --bench route -- [REQUESTS] [WORKERS] [BLOCKS]`; default 200,000 requests of 200 blocks on
//! 16 workers, half of whose blocks are shared by 64 requests each.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for the terminal that measures time")]

use std::collections::VecDeque;
use std::time::Instant;

use dynosim_engine::{Nanos, hash::mix};
use dynosim_router::{Event, Request, Router, RouterConfig, Target, Tier, WorkerSpec};

/// Requests that are open at once, and prompts that stay cached, per worker.
const OPEN: usize = 16;
const CACHED: usize = 64;

fn main() {
    let mut numbers = std::env::args().filter_map(|arg| arg.parse::<u64>().ok());
    let requests = numbers.next().unwrap_or(200_000);
    let workers = numbers.next().unwrap_or(16);
    let blocks = numbers.next().unwrap_or(200) as usize;
    let mut router = Router::new(RouterConfig::default(), 64, 1).expect("defaults are valid");
    for worker in 0..workers {
        router.add_worker(Nanos::ZERO, WorkerSpec::new(worker));
    }
    let mut open: VecDeque<u64> = VecDeque::new();
    let mut cached: Vec<VecDeque<Vec<u64>>> = vec![VecDeque::new(); workers as usize];
    let mut prompt = vec![0; blocks];
    let (start, mut events) = (Instant::now(), 0.0);
    let mut hits = 0u64;
    for id in 0..requests {
        let now = Nanos(id * 1000);
        for (at, hash) in prompt.iter_mut().enumerate() {
            let own = if at < blocks / 2 { mix(1, id / 64) } else { mix(2, id) };
            *hash = mix(own, at as u64);
        }
        let request = Request::new(blocks as u32 * 64 + 1, &prompt, &prompt);
        let decision = router.select_and_reserve(now, id, &request).expect("workers");
        hits += u64::from(decision.matched.device);
        open.push_back(id);
        let told = Instant::now();
        events += tell(&mut router, decision.target, &prompt, &mut cached[decision.target.worker as usize], told);
        router.prefill_complete(now, id).expect("it is open");
        if open.len() > OPEN * workers as usize {
            let done = open.pop_front().expect("one is open");
            router.free(now, done).expect("it is open");
        }
    }
    let total = start.elapsed().as_secs_f64();
    let share = hits as f64 / (requests * blocks as u64) as f64;
    println!("{requests} requests of {blocks} blocks on {workers} workers, {:.0} % of blocks cached", share * 100.0);
    println!("{:.0} requests/s with events", requests as f64 / total);
    println!("{:.0} requests/s without events", requests as f64 / (total - events));
}

/// A worker stores a prompt and evicts its oldest one; returns the seconds that took.
fn tell(router: &mut Router, target: Target, prompt: &[u64], cached: &mut VecDeque<Vec<u64>>, start: Instant) -> f64 {
    let event = Event::Stored { parent: None, block_hashes: prompt, tokens_hashes: prompt };
    router.apply(target, Tier::Device, event).expect("it starts at the root");
    cached.push_back(prompt.to_vec());
    if cached.len() > CACHED {
        let mut oldest = cached.pop_front().expect("one is cached");
        // The shared half stays with the other prompts that have it.
        let keep = cached.front().map_or(0, |next| next.iter().zip(&oldest).take_while(|(a, b)| a == b).count());
        oldest.drain(..keep);
        oldest.reverse();
        let _ = router.apply(target, Tier::Device, Event::Removed { block_hashes: &oldest });
    }
    start.elapsed().as_secs_f64()
}
