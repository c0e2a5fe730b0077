//! Routed requests per second as in an offline run: choice, reservation, events, end.
//!
//! `cargo bench -p dynosim-router --bench route -- [REQUESTS] [WORKERS] [BLOCKS] [NEW]`; default 200,000 requests on 8 workers,
//! from conversations that grow by 15 blocks a turn up to 100 blocks.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for the terminal that measures time")]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use dynosim_engine::{Nanos, hash::mix};
use dynosim_router::{Event, Request, Router, RouterConfig, Target, Tier, WorkerSpec};

/// Conversations that go on at once, requests that are open at once, and blocks that a worker can cache.
const TALKS: u64 = 200;
const OPEN: usize = 64;
const CACHE: usize = 16_384;
/// Blocks that every conversation of a group starts with, and groups.
const SYSTEM: usize = 8;
const GROUPS: u64 = 20;

/// The conversations that a worker has cached, least recently used first.
#[derive(Default)]
struct Cache {
    talks: VecDeque<(u64, Vec<u64>)>,
    blocks: usize,
}

impl Cache {
    /// A worker stores what it had not, and evicts whole conversations, last blocks first.
    fn tell(&mut self, router: &mut Router, target: Target, (talk, prompt): (u64, &[u64]), cached: usize) {
        let parent = cached.checked_sub(1).map(|last| prompt[last]);
        let new = &prompt[cached..];
        let event = Event::Stored { parent, block_hashes: new, tokens_hashes: new };
        router.apply(target, Tier::Device, event).expect("the parent was matched");
        let before = self.talks.iter().position(|(known, old)| *known == talk && prompt.starts_with(old));
        let mut blocks = before.and_then(|at| self.talks.remove(at)).map_or(Vec::new(), |(_, blocks)| blocks);
        self.blocks += prompt.len() - blocks.len();
        blocks.extend_from_slice(&prompt[blocks.len()..]);
        self.talks.push_back((talk, blocks));
        while self.blocks > CACHE {
            let Some((_, mut oldest)) = self.talks.pop_front() else { return };
            self.blocks -= oldest.len();
            // What a group starts with stays in use.
            oldest.drain(..SYSTEM);
            oldest.reverse();
            router.apply(target, Tier::Device, Event::Removed { block_hashes: &oldest }).expect("all are there");
        }
    }
}

fn extend(prompt: &mut Vec<u64>, talk: u64, life: u64, new: usize, most: usize) -> u64 {
    let restart = prompt.len() + new > most;
    if restart {
        prompt.clear();
    }
    let life = life + u64::from(restart);
    let len = if prompt.is_empty() { SYSTEM + new } else { prompt.len() + new };
    for at in prompt.len()..len {
        let own = if at < SYSTEM { mix(1, talk % GROUPS) } else { mix(talk, life) };
        prompt.push(mix(own, at as u64));
    }
    life
}

/// A conversation's number; those that start anew are others.
fn life_key(talk: u64, life: u64) -> u64 {
    mix(talk, life)
}

fn main() {
    let mut numbers = std::env::args().filter_map(|arg| arg.parse::<u64>().ok());
    let requests = numbers.next().unwrap_or(200_000);
    let workers = numbers.next().unwrap_or(8);
    let most = numbers.next().unwrap_or(100) as usize;
    let new = numbers.next().unwrap_or(15) as usize;
    let mut router = Router::new(RouterConfig::default(), 64, 1).expect("defaults are valid");
    for worker in 0..workers {
        router.add_worker(Nanos::ZERO, WorkerSpec::new(worker));
    }
    let mut talks: Vec<(Vec<u64>, u64)> = (0..TALKS).map(|_| (Vec::new(), 0)).collect();
    let mut caches: Vec<Cache> = (0..workers).map(|_| Cache::default()).collect();
    let mut open: VecDeque<u64> = VecDeque::new();
    let (mut routing, mut events) = (Duration::ZERO, Duration::ZERO);
    let (mut hits, mut blocks) = (0, 0);
    for id in 0..requests {
        let talk = mix(9, id) % TALKS;
        let (prompt, life) = &mut talks[talk as usize];
        *life = extend(prompt, talk, *life, new, most);
        let now = Nanos(id * 1000);
        let start = Instant::now();
        let request = Request::new(prompt.len() as u32 * 64 + 1, prompt, prompt);
        let decision = router.select_and_reserve(now, id, &request).expect("there are workers");
        open.push_back(id);
        router.prefill_complete(now, id).expect("it is open");
        if open.len() > OPEN {
            router.free(now, open.pop_front().expect("one is open")).expect("it is open");
        }
        let told = Instant::now();
        let hit = decision.matched.device as usize;
        caches[decision.target.worker as usize].tell(
            &mut router,
            decision.target,
            (life_key(talk, *life), prompt),
            hit,
        );
        routing += told - start;
        events += told.elapsed();
        hits += hit;
        blocks += prompt.len();
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / requests as f64;
    println!(
        "{requests} requests of {:.0} blocks on {workers} workers, {:.0} % cached, {} blocks in the index",
        blocks as f64 / requests as f64,
        hits as f64 / blocks as f64 * 100.0,
        router.index_size().blocks
    );
    println!("{:.2} us per request for choice, booking and end; {:.2} us for its events", each(routing), each(events));
    println!("{:.0} requests/s", 1e6 / (each(routing) + each(events)));
}
