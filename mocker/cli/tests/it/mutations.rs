//! The fuzz targets of `fuzz/` over seeded mutations of their seeds: a small proof on every test run, without a fuzzer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::place::names;

#[path = "../../../../fuzz/checks/bootstrap.rs"]
mod bootstrap;
#[path = "../../../../fuzz/checks/discovery_record.rs"]
mod discovery_record;
#[path = "../../../../fuzz/checks/engine_args.rs"]
mod engine_args;
#[path = "../../../../fuzz/checks/events.rs"]
mod events;
#[path = "../../../../fuzz/checks/http_body.rs"]
mod http_body;
#[path = "../../../../fuzz/checks/manifest.rs"]
mod manifest;
#[path = "../../../../fuzz/checks/npz.rs"]
mod npz;
#[path = "../../../../fuzz/checks/trace_graph.rs"]
mod trace_graph;
#[path = "../../../../fuzz/checks/trace_row.rs"]
mod trace_row;
#[path = "../../../../fuzz/checks/wire_frames.rs"]
mod wire_frames;

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

/// What a seed's name begins with whose content is refused.
const REFUSED: &str = "refused_";

/// Names and contents of a target's seeds.
fn seeds(target: &str) -> (Vec<String>, Vec<Vec<u8>>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let names = names(&folder);
    let contents: Vec<_> = names.iter().map(|name| std::fs::read(folder.join(name)).expect("a seed")).collect();
    assert!(contents.len() >= 4, "{} seeds", contents.len());
    (names, contents)
}

/// Like [`run`], for a check that says whether it understood its input, as it must each seed that is not to be refused.
#[track_caller]
fn run_understood(target: &str, check: fn(&[u8]) -> bool) {
    let (names, contents) = seeds(target);
    for (name, content) in names.iter().zip(&contents) {
        assert_eq!(check(content), !name.starts_with(REFUSED), "{target}: {name}");
    }
    run(target, |data| _ = check(data));
}

/// Runs a target's check on every seed and its mutations.
#[track_caller]
fn run(target: &str, check: impl Fn(&[u8])) {
    let (_, seeds) = seeds(target);
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

#[test]
fn mutated_traces_of_agents_never_panic_and_come_to_their_end() {
    run_understood("trace_graph", trace_graph::check);
}

#[test]
fn mutated_frames_of_requests_and_responses_never_panic() {
    run_understood("wire_frames", wire_frames::check);
}

#[test]
fn mutated_events_never_panic_and_read_back() {
    run_understood("events", events::check);
}

#[test]
fn mutated_handshakes_never_panic_and_read_back() {
    run_understood("bootstrap", bootstrap::check);
}

#[test]
fn mutated_discovery_records_never_panic_and_read_back() {
    run_understood("discovery_record", discovery_record::check);
}

#[test]
fn mutated_http_bodies_never_panic_and_are_refused_in_form() {
    run_understood("http_body", http_body::check);
}

#[test]
fn mutated_manifests_never_panic_and_keep_their_limits() {
    run_understood("manifest", manifest::check);
}
