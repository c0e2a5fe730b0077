//! The fuzz targets of `fuzz/` over seeded mutations of their seeds: a small proof on every test run, without a fuzzer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::place::names;

#[path = "../../../../fuzz/checks/engine_args.rs"]
mod engine_args;
#[path = "../../../../fuzz/checks/npz.rs"]
mod npz;
#[path = "../../../../fuzz/checks/trace_row.rs"]
mod trace_row;

/// Mutations of each seed.
const MUTATIONS: u64 = 150;

/// `SplitMix64`.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `limit`, or 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// What parsers stumble over.
const WORDS: &[&[u8]] = &[
    b"0",
    b"-1",
    b"1e999",
    b"9007199254740993",
    b"18446744073709551616",
    b"null",
    b"true",
    b"\"",
    b"\\u0000",
    b"\xFF",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"0.5",
    b"4294967296",
    b"{}",
    b"\"\"",
];

fn mutate(seeds: &[Vec<u8>], seed: usize, random: &mut Random) -> Vec<u8> {
    let mut data = seeds[seed].clone();
    for _ in 0..=random.below(3) {
        let at = random.below(data.len());
        let end = at + random.below(data.len() - at).min(40);
        match random.below(6) {
            0 => drop(data.drain(at..end)),
            1 => drop(data.splice(at..at, WORDS[random.below(WORDS.len())].iter().copied())),
            2 => drop(data.splice(at..end, WORDS[random.below(WORDS.len())].iter().copied())),
            3 => data.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << random.below(8)),
            4 => data.extend_from_within(at..end),
            _ => {
                let other = &seeds[random.below(seeds.len())];
                data.truncate(at);
                data.extend(&other[random.below(other.len())..]);
            }
        }
    }
    data
}

/// Runs a target's check on every seed and its mutations.
#[track_caller]
fn run(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let seeds: Vec<_> = names(&folder).iter().map(|name| std::fs::read(folder.join(name)).expect("a seed")).collect();
    assert!(seeds.len() >= 4, "{} seeds", seeds.len());
    for (index, seed) in seeds.iter().enumerate() {
        check(seed);
        let mut random = Random(index as u64);
        for _ in 0..MUTATIONS {
            let data = mutate(&seeds, index, &mut random);
            let outcome = catch_unwind(AssertUnwindSafe(|| check(&data)));
            assert!(outcome.is_ok(), "{target} fails on {}", data.escape_ascii());
        }
    }
}

#[test]
fn mutated_engine_arguments_never_panic_and_read_back() {
    run("engine_args", engine_args::check);
}

#[test]
fn mutated_profiles_never_panic() {
    run("npz", npz::check);
}

#[test]
fn mutated_trace_rows_never_panic_and_keep_their_limits() {
    run("trace_row", trace_row::check);
}
