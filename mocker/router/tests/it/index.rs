//! The prefix index against the plainest model: a set of blocks per rank.

use std::collections::{BTreeMap, BTreeSet};

use dynosim_engine::{Nanos, hash::mix};
use dynosim_router::{Event, EventError, Router, RouterConfig, Target, Tier, WorkerSpec};
use proptest::prelude::*;

const WORKERS: u64 = 3;
const RANKS: u32 = 2;

#[derive(Clone, Debug)]
enum Op {
    /// The last blocks of a prompt are stored, after the first `from` ones.
    Store {
        target: Target,
        prompt: Vec<u64>,
        from: usize,
    },
    /// The last block of a prompt goes, and all that come after it.
    Evict {
        target: Target,
        prompt: Vec<u64>,
    },
    Clear(Target),
    /// The worker goes and comes back.
    Replace(u64),
}

fn target() -> impl Strategy<Value = Target> {
    (0..WORKERS, 0..RANKS).prop_map(|(worker, rank)| Target { worker, rank })
}

fn prompt() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(1u64..3, 1..9)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (target(), prompt(), 0usize..5).prop_map(|(target, prompt, from)| {
            let from = from.min(prompt.len() - 1);
            Op::Store { target, prompt, from }
        }),
        6 => (target(), prompt()).prop_map(|(target, prompt)| Op::Evict { target, prompt }),
        1 => target().prop_map(Op::Clear),
        1 => (0..WORKERS).prop_map(Op::Replace),
    ]
}

/// Block hashes of a prompt.
fn blocks(prompt: &[u64]) -> Vec<u64> {
    let chain = prompt.iter().scan(0, |above, &tokens| {
        *above = mix(*above, tokens);
        Some(*above)
    });
    chain.collect()
}

/// What each rank holds: whole prefixes.
#[derive(Default)]
struct Model(BTreeMap<Target, BTreeSet<Vec<u64>>>);

impl Model {
    fn holds(&self, target: Target, prefix: &[u64]) -> bool {
        prefix.is_empty() || self.0.get(&target).is_some_and(|held| held.contains(prefix))
    }

    fn matched(&self, target: Target, prompt: &[u64]) -> u32 {
        (1..=prompt.len()).take_while(|&len| self.holds(target, &prompt[..len])).count() as u32
    }

    fn apply(&mut self, router: &mut Router, op: &Op) {
        match op {
            Op::Store { target, prompt, from } => {
                let hashes = blocks(prompt);
                let parent = from.checked_sub(1).map(|last| hashes[last]);
                let event = Event::Stored { parent, block_hashes: &hashes[*from..], tokens_hashes: &prompt[*from..] };
                let known = self.holds(*target, &prompt[..*from]);
                let expected = if known { Ok(()) } else { Err(EventError::ParentNotFound) };
                assert_eq!(router.apply(*target, Tier::Device, event), expected);
                if known {
                    let held = self.0.entry(*target).or_default();
                    held.extend((from + 1..=prompt.len()).map(|len| prompt[..len].to_vec()));
                }
            }
            Op::Evict { target, prompt } => {
                let held = self.0.entry(*target).or_default();
                let gone: BTreeSet<_> = held.iter().filter(|held| held.starts_with(prompt)).cloned().collect();
                held.retain(|prefix| !gone.contains(prefix));
                let mut order: Vec<_> = gone.iter().collect();
                order.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
                let mut hashes: Vec<_> = order.iter().filter_map(|prefix| blocks(prefix).last().copied()).collect();
                let expected = if hashes.is_empty() { Err(EventError::BlockNotFound) } else { Ok(()) };
                if hashes.is_empty() {
                    hashes.push(blocks(prompt)[prompt.len() - 1]);
                }
                let event = Event::Removed { block_hashes: &hashes };
                assert_eq!(router.apply(*target, Tier::Device, event), expected);
            }
            Op::Clear(target) => {
                self.0.remove(target);
                router.apply(*target, Tier::Device, Event::Cleared).unwrap();
            }
            Op::Replace(worker) => {
                self.0.retain(|target, _| target.worker != *worker);
                router.remove_worker(Nanos::ZERO, *worker).unwrap();
                router.add_worker(Nanos::ZERO, WorkerSpec { ranks: RANKS, ..WorkerSpec::new(*worker) });
            }
        }
    }
}

proptest! {
    #[test]
    fn ranks_match_what_they_have_stored_and_not_removed(
        ops in prop::collection::vec(op(), 1..120),
        prompts in prop::collection::vec(prompt(), 6),
    ) {
        let mut router = Router::new(RouterConfig::default(), 16, 1).unwrap();
        for worker in 0..WORKERS {
            router.add_worker(Nanos::ZERO, WorkerSpec { ranks: RANKS, ..WorkerSpec::new(worker) });
        }
        let mut model = Model::default();
        let mut found = Vec::new();
        for op in &ops {
            model.apply(&mut router, op);
            for prompt in &prompts {
                router.overlap(Nanos::ZERO, prompt, &mut found);
                for &(target, matched) in &found {
                    prop_assert_eq!(matched.device, model.matched(target, prompt), "{} {:?}", target, prompt);
                }
            }
        }
        for (&target, held) in &model.0 {
            let mut seen: Vec<_> = router.held(target).into_iter().map(|(_, block, _)| block).collect();
            let mut expected: Vec<_> = held.iter().map(|prefix| blocks(prefix)[prefix.len() - 1]).collect();
            seen.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(seen, expected);
        }
        // Nothing is left of ranks that hold nothing.
        for worker in 0..WORKERS {
            router.remove_worker(Nanos::ZERO, worker).unwrap();
        }
        prop_assert_eq!((router.index_size().blocks, router.index_size().runs), (0, 0));
    }

    #[test]
    fn any_events_leave_an_index_that_forgets_everything(
        events in prop::collection::vec((target(), prompt(), 0usize..5, any::<bool>()), 1..80),
    ) {
        let mut router = Router::new(RouterConfig::default(), 16, 1).unwrap();
        for worker in 0..WORKERS {
            router.add_worker(Nanos::ZERO, WorkerSpec { ranks: RANKS, ..WorkerSpec::new(worker) });
        }
        for (target, prompt, from, removal) in events {
            // Small hashes on purpose: the same name for different blocks, and other names for the same.
            let from = from.min(prompt.len() - 1);
            let hashes: Vec<_> = prompt.iter().enumerate().map(|(at, tokens)| at as u64 * 2 + tokens + target.worker).collect();
            let parent = from.checked_sub(1).map(|last| hashes[last]);
            let event = if removal {
                Event::Removed { block_hashes: &hashes[from..] }
            } else {
                Event::Stored { parent, block_hashes: &hashes[from..], tokens_hashes: &prompt[from..] }
            };
            let _ = router.apply(target, Tier::Device, event);
        }
        for worker in 0..WORKERS {
            for rank in 0..RANKS {
                router.apply(Target { worker, rank }, Tier::Device, Event::Cleared).unwrap();
            }
        }
        prop_assert_eq!((router.index_size().blocks, router.index_size().runs), (0, 0));
    }
}
