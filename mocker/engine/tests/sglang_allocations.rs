//! Stepping the `SGLang` scheduler in a steady load allocates nothing.

use dynosim_engine::hash::{BlockHashes, mix};
use dynosim_engine::pass::{Pass, Scheduler as _};
use dynosim_engine::request::Request;
use dynosim_engine::sglang::{Config, QueuePolicy, Scheduler};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Requests of 40 pages, the first 10 shared, and 4 pages of output.
fn request(number: u64) -> Request {
    let mut hash = 0;
    let known = (0..40_u64).map(|page| {
        hash = mix(hash, if page < 10 { page } else { number << 32 | page });
        hash
    });
    let hashes = BlockHashes { known: known.collect(), salt: number };
    Request { prompt_tokens: 640, max_output_tokens: 64, hashes, ..Request::default() }
}

/// Blocks allocated in the second half of a closed loop of 1000 requests, 20 at a time, in a cache that evicts.
fn blocks_allocated(policy: QueuePolicy) -> u64 {
    let config = Config { page_size: 16, capacity_tokens: 16 * 1200, policy, ..Config::default() };
    let mut scheduler = Scheduler::new(config);
    let mut pass = Pass::default();
    let mut coming: Vec<Request> = (0..1000).rev().map(request).collect();
    let mut before = 0;
    for _ in 0..20 {
        scheduler.submit(coming.pop().expect("enough requests"));
    }
    while !coming.is_empty() {
        if coming.len() > 500 {
            before = dhat::HeapStats::get().total_blocks;
        }
        pass.clear();
        scheduler.schedule(&mut pass);
        scheduler.complete(&mut pass);
        for _ in 0..pass.finished.len() {
            coming.pop().map(|request| scheduler.submit(request));
        }
        if let Some(steady) = scheduler.steady(u32::MAX) {
            pass.clear();
            scheduler.advance(steady.passes / 2, &mut pass);
        }
    }
    dhat::HeapStats::get().total_blocks - before
}

#[test]
fn a_steady_load_allocates_nothing() {
    let _profiler = dhat::Profiler::builder().testing().build();
    for policy in [QueuePolicy::Fcfs, QueuePolicy::Lpm, QueuePolicy::DfsWeight] {
        assert_eq!(blocks_allocated(policy), 0, "{policy:?}");
    }
}
