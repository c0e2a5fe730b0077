//! How fast a large index answers, and how much memory it takes.
//!
//! `cargo bench -p dynosim-router --bench index -- [BLOCKS] [WORKERS]`; default 10 million blocks over 1,000 workers, in
//! prompts of 1,000 blocks. Each prompt is on one worker; its first 100 blocks are shared by a hundred prompts, and are
//! on up to a hundred workers.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for the terminal that measures time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use dynosim_engine::{Nanos, hash::mix};
use dynosim_router::{Event, Request, Router, RouterConfig, Target, Tier, WorkerSpec};

const PROMPT: usize = 1000;
const SHARED: usize = 100;
/// Prompts that start alike.
const GROUP: u64 = 100;

/// Block hashes of a prompt, of which the first ones are its group's.
fn prompt(number: u64) -> Vec<u64> {
    let own = |at: usize| if at < SHARED { mix(1, number / GROUP) } else { mix(2, number) };
    (0..PROMPT).map(|at| mix(own(at), at as u64)).collect()
}

fn store(router: &mut Router, worker: u64, parent: Option<u64>, blocks: &[u64]) {
    let event = Event::Stored { parent, block_hashes: blocks, tokens_hashes: blocks };
    router.apply(Target::first(worker), Tier::Device, event).expect("a known parent");
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let mean = times.iter().sum::<Duration>() / times.len() as u32;
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    println!("{what}: mean {:.2} us, median {:.2} us, p99 {:.2} us", mean.as_secs_f64() * 1e6, at(0.5), at(0.99));
}

fn timed<T>(prompts: &[Vec<u64>], mut call: impl FnMut(&[u64]) -> T) -> Vec<Duration> {
    let time = |prompt: &Vec<u64>| {
        let start = Instant::now();
        black_box(call(black_box(prompt)));
        start.elapsed()
    };
    prompts.iter().map(time).collect()
}

/// Resident memory in bytes, where the system tells.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn main() {
    let mut numbers = std::env::args().filter_map(|arg| arg.parse::<u64>().ok());
    let blocks = numbers.next().unwrap_or(10_000_000);
    let workers = numbers.next().unwrap_or(1000);
    let mut router = Router::new(RouterConfig::default(), 64, 1).expect("defaults are valid");
    for worker in 0..workers {
        router.add_worker(Nanos::ZERO, WorkerSpec::new(worker));
    }
    let prompts = blocks / PROMPT as u64;
    let (before, start) = (resident(), Instant::now());
    for number in 0..prompts {
        store(&mut router, mix(3, number) % workers, None, &prompt(number));
    }
    let stored = prompts as usize * PROMPT;
    let size = router.index_size();
    println!("stored {stored} blocks in {:.2} s", start.elapsed().as_secs_f64());
    println!(
        "{} distinct blocks, {} runs: {:.1} bytes per block by count, {:.1} resident",
        size.blocks,
        size.runs,
        size.bytes as f64 / size.blocks as f64,
        resident().saturating_sub(before) as f64 / size.blocks as f64
    );
    // Spread over the index, so that nothing looked up is in the processor's caches.
    let asked: Vec<_> = (0..2000).map(|turn| prompt(mix(4, turn) % prompts)).collect();
    let branching: Vec<_> = (0..2000)
        .map(|turn| {
            let mut prompt = prompt(mix(5, turn) % prompts);
            let len = prompt.len();
            prompt[len / 2..].iter_mut().for_each(|hash| *hash = mix(*hash, 9));
            prompt
        })
        .collect();
    let unknown: Vec<_> = (0..2000).map(|turn| prompt(prompts * 2 + turn * GROUP)).collect();
    let mut found = Vec::new();
    for (what, prompts) in [("known", &asked), ("half known", &branching), ("unknown", &unknown)] {
        let times = timed(prompts, |prompt| router.overlap(Nanos::ZERO, prompt, &mut found));
        report(&format!("overlap on all {workers} workers, {what} prompt of {PROMPT} blocks"), times);
    }
    let tokens = PROMPT as u32 * 64;
    let times = timed(&asked, |prompt| router.select(Nanos::ZERO, &Request::new(tokens, prompt, prompt)));
    report(&format!("choice among {workers} workers"), times);
    let start = Instant::now();
    for number in 0..2000 {
        let mut gone = prompt(number);
        gone.reverse();
        let event = Event::Removed { block_hashes: &gone[..PROMPT - SHARED] };
        // Not all are there if fewer blocks were asked for.
        let _ = router.apply(Target::first(mix(3, number) % workers), Tier::Device, event);
    }
    println!("removal: {:.1} ns per block", start.elapsed().as_secs_f64() * 1e9 / (2000 * (PROMPT - SHARED)) as f64);
}
