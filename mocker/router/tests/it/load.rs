//! Loads against a list of open requests.

use std::collections::{BTreeMap, BTreeSet};

use dynosim_engine::{Nanos, hash::mix};
use dynosim_router::{LoadView, Request, Router, RouterConfig, Target, WorkerSpec};
use proptest::prelude::*;
use serde_json::json;

const BLOCK: u32 = 4;
const WORKERS: u64 = 3;

#[derive(Clone, Debug)]
enum Op {
    Reserve { worker: u64, prompt: Vec<u64>, partial: u32 },
    Output(usize),
    Computed(usize),
    Free(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let prompt = prop::collection::vec(1u64..3, 0..8);
    prop_oneof![
        3 => (0..WORKERS, prompt, 1..BLOCK).prop_map(|(worker, prompt, partial)| Op::Reserve { worker, prompt, partial }),
        1 => any::<usize>().prop_map(Op::Output),
        1 => any::<usize>().prop_map(Op::Computed),
        2 => any::<usize>().prop_map(Op::Free),
    ]
}

struct Open {
    worker: u64,
    prompt: Vec<u64>,
    output: u32,
    prefill: u64,
}

/// Distinct prefixes, output blocks and uncomputed tokens of a worker's requests.
fn view(open: &BTreeMap<u64, Open>, worker: u64, reuse: bool) -> LoadView {
    let mine = || open.values().filter(|request| request.worker == worker);
    let prefixes = mine().flat_map(|request| (1..=request.prompt.len()).map(|len| &request.prompt[..len]));
    let shared = if reuse { prefixes.collect::<BTreeSet<_>>().len() } else { prefixes.count() };
    LoadView {
        requests: mine().count() as u32,
        blocks: shared as u32 + mine().map(|request| request.output).sum::<u32>(),
        prefill_tokens: mine().map(|request| request.prefill).sum(),
    }
}

fn check(ops: &[Op], reuse: bool) -> Result<(), TestCaseError> {
    let config = RouterConfig::from_json(&json!({ "router_assume_kv_reuse": reuse })).unwrap();
    let mut router = Router::new(config, BLOCK, 1).unwrap();
    for worker in 0..WORKERS {
        router.add_worker(Nanos::ZERO, WorkerSpec::new(worker));
    }
    let (mut open, mut loads) = (BTreeMap::new(), Vec::new());
    for (id, op) in (0..).zip(ops) {
        let any = |at: usize| open.keys().nth(at % open.len().max(1)).copied();
        match op {
            Op::Reserve { worker, prompt, partial } => {
                let tokens = prompt.len() as u32 * BLOCK + partial;
                let hashes: Vec<_> = prompt.iter().map(|&tokens| mix(7, tokens)).collect();
                let request = Request::new(tokens, &hashes, &hashes);
                let asked = request_loads(&mut router, &request);
                router.reserve(Nanos::ZERO, id, Target::first(*worker), &request, Some(tokens)).unwrap();
                let prefill = u64::from(tokens);
                open.insert(id, Open { worker: *worker, prompt: prompt.clone(), output: 0, prefill });
                // What was promised is what came.
                prop_assert_eq!(asked[*worker as usize].1.blocks, view(&open, *worker, reuse).blocks);
            }
            Op::Output(at) => {
                if let Some(id) = any(*at) {
                    router.add_output_block(id, None).unwrap();
                    open.get_mut(&id).unwrap().output += 1;
                }
            }
            Op::Computed(at) => {
                if let Some(id) = any(*at) {
                    router.prefill_complete(Nanos::ZERO, id).unwrap();
                    open.get_mut(&id).unwrap().prefill = 0;
                }
            }
            Op::Free(at) => {
                if let Some(id) = any(*at) {
                    router.free(Nanos::ZERO, id).unwrap();
                    open.remove(&id);
                }
            }
        }
        router.loads(Nanos::ZERO, &mut loads);
        for &(target, load) in &loads {
            prop_assert_eq!(load, view(&open, target.worker, reuse));
        }
    }
    Ok(())
}

fn request_loads(router: &mut Router, request: &Request<'_>) -> Vec<(Target, LoadView)> {
    let mut loads = Vec::new();
    router.potential_loads(Nanos::ZERO, request, &mut loads).unwrap();
    loads
}

proptest! {
    #[test]
    fn equal_prefixes_of_a_rank_count_once(ops in prop::collection::vec(op(), 1..100)) {
        check(&ops, true)?;
    }

    #[test]
    fn without_reuse_every_block_counts(ops in prop::collection::vec(op(), 1..60)) {
        check(&ops, false)?;
    }
}
