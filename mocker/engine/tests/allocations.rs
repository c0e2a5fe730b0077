//! Stepping an engine in a steady load allocates nothing, whoever comes, ends, or is thrown out.

use dynosim_engine::hash::{BlockHashes, mix};
use dynosim_engine::kv::Eviction;
use dynosim_engine::pass::{Pass, Scheduler};
use dynosim_engine::request::Request;
use dynosim_engine::{sglang, vllm};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Requests of a load.
const REQUESTS: u64 = 4000;
/// Of them, those after which nothing may be allocated any more.
const WARM_UP: u64 = 1500;
/// Requests in the engine at any time.
const IN_FLIGHT: u64 = 40;
/// Tokens per block.
const BLOCK_SIZE: u32 = 16;
/// Blocks of the pool: about as much as half of the requests in flight hold, so that some are thrown out.
const BLOCKS: u32 = 700;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stepping {
    Passes,
    Runs,
}

/// What a load did.
#[derive(Debug, Default)]
struct Done {
    blocks_allocated: u64,
    passes: u64,
    runs: u64,
    preempted: u64,
    hit_tokens: u64,
}

/// How long the requests of a load are.
#[derive(Clone, Copy, Debug)]
enum Lengths {
    /// After some of the longest, which every buffer of a request then has room for: up to `BLOCKS_MAX`, `OUTPUT_MAX`.
    Mixed,
    /// All of the longest: nodes of `SGLang`'s tree change their owners, and room for the longest run comes slowly.
    Longest,
}

const BLOCKS_MAX: u64 = 40;
const OUTPUT_MAX: u64 = 128;

/// A request whose first 10 blocks are those of one of five groups. Every seventh repeats the prompt of the one before,
/// so that equal blocks are computed twice.
fn request(number: u64, lengths: Lengths) -> Request {
    let number = if number.is_multiple_of(7) { number.saturating_sub(1) } else { number };
    let draw = mix(0, number);
    let (blocks, output) = match lengths {
        Lengths::Mixed if number >= 2 * IN_FLIGHT => (BLOCKS_MAX - draw % 21, 1 + (draw >> 32) % OUTPUT_MAX),
        Lengths::Mixed | Lengths::Longest => (BLOCKS_MAX, OUTPUT_MAX),
    };
    let mut hash = number % 5;
    let known = (0..blocks).map(|block| {
        hash = mix(hash, if block < 10 { block } else { number << 32 | block });
        hash
    });
    let hashes = BlockHashes { known: known.collect(), salt: draw };
    let prompt_tokens = blocks as u32 * BLOCK_SIZE;
    Request { prompt_tokens, max_output_tokens: output as u32, hashes, ..Request::default() }
}

/// Runs a load in which a request comes for each that ends.
fn run(mut scheduler: impl Scheduler, stepping: Stepping, lengths: Lengths) -> Done {
    let mut done = Done::default();
    let mut pass = Pass::default();
    pass.events.enabled = true;
    pass.admitted.reserve(IN_FLIGHT as usize);
    pass.preempted.reserve(IN_FLIGHT as usize);
    pass.finished.reserve(IN_FLIGHT as usize);
    let mut coming: Vec<Request> = (0..REQUESTS).rev().map(|number| request(number, lengths)).collect();
    let mut before = 0;
    for _ in 0..IN_FLIGHT {
        scheduler.submit(coming.pop().expect("enough requests"));
    }
    while !coming.is_empty() {
        if coming.len() as u64 > REQUESTS - WARM_UP {
            before = dhat::HeapStats::get().total_blocks;
        }
        pass.clear();
        let steady = if stepping == Stepping::Runs { scheduler.steady(128) } else { None };
        if let Some(steady) = steady {
            scheduler.advance(steady.passes, &mut pass);
            done.runs += 1;
        } else {
            scheduler.schedule(&mut pass);
            scheduler.complete(&mut pass);
            done.passes += 1;
        }
        done.preempted += pass.preempted.len() as u64;
        done.hit_tokens += pass.admitted.iter().map(|admission| u64::from(admission.cached_tokens)).sum::<u64>();
        for _ in 0..pass.finished.len() {
            coming.pop().map(|request| scheduler.submit(request));
        }
    }
    done.blocks_allocated = dhat::HeapStats::get().total_blocks - before;
    done
}

fn check(name: &str, stepping: Stepping, done: &Done) {
    assert_eq!(done.blocks_allocated, 0, "{name}, {stepping:?}: {done:?}");
    assert!(done.passes > 1000 && done.hit_tokens > 0, "{name}, {stepping:?}: {done:?}");
    assert_eq!(done.runs > 50, stepping == Stepping::Runs, "{name}, {stepping:?}: {done:?}");
}

// One test, since the count is that of the whole process.
#[test]
fn a_steady_load_allocates_nothing() {
    let _profiler = dhat::Profiler::builder().testing().build();
    for stepping in [Stepping::Passes, Stepping::Runs] {
        for eviction in [Eviction::Lineage, Eviction::Lru, Eviction::MultiLru] {
            let config = vllm::Config {
                num_gpu_blocks: BLOCKS,
                block_size: BLOCK_SIZE,
                eviction,
                max_num_batched_tokens: Some(2048),
                ..vllm::Config::default()
            };
            let done = run(vllm::Scheduler::new(config), stepping, Lengths::Mixed);
            assert!(done.preempted > 100, "{done:?}");
            check(eviction.name(), stepping, &done);
        }
        for policy in [sglang::QueuePolicy::Fcfs, sglang::QueuePolicy::Lpm, sglang::QueuePolicy::DfsWeight] {
            // Retractions cut runs of the tree at ever other places, so room for them comes too slowly with this policy.
            let room = if policy == sglang::QueuePolicy::DfsWeight { 4 } else { 1 };
            let config = sglang::Config {
                page_size: BLOCK_SIZE,
                capacity_tokens: u64::from(BLOCK_SIZE * BLOCKS * room),
                policy,
                schedule_conservativeness: 0.1,
                ..sglang::Config::default()
            };
            check(&format!("{policy:?}"), stepping, &run(sglang::Scheduler::new(config), stepping, Lengths::Longest));
        }
    }
}
