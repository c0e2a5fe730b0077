//! The calculation of a prefill and a decode engine in virtual time, against times worked out by hand, and its laws.

use dynosim_engine::timing::Fixed;
use dynosim_engine::{
    BlockHashes, EngineConfig, KvTransfer, Nanos, Request, Role, SchedulerConfig, Timing, TimingModel, TransferMode,
    sglang, vllm,
};
use proptest::prelude::*;

use crate::pair::{Course, Pair, Visit};

const PAGE: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Vllm,
    Sglang,
}

/// An engine whose passes take 10 ms for prompts and 2 ms for output.
fn engine(kind: Kind, role: Role, blocks: u32) -> EngineConfig {
    let scheduler = match kind {
        Kind::Vllm => SchedulerConfig::Vllm(vllm::Config {
            num_gpu_blocks: blocks,
            block_size: PAGE,
            role,
            ..vllm::Config::default()
        }),
        Kind::Sglang => SchedulerConfig::Sglang(sglang::Config {
            page_size: PAGE,
            capacity_tokens: u64::from(blocks * PAGE),
            role,
            ..sglang::Config::default()
        }),
    };
    EngineConfig {
        scheduler,
        dp_size: 1,
        timing: Timing::new(TimingModel::Fixed(Fixed { prefill_ms: 10.0, decode_ms: 2.0 }), 1.0, 1.0),
        kv_capacity_tokens: u64::from(blocks * PAGE),
        role,
        emit_kv_events: false,
    }
}

/// A link that takes 50 µs per token.
fn link(mode: TransferMode) -> KvTransfer {
    KvTransfer { bytes_per_token: Some(50_000), bandwidth_gb_s: Some(1.0), mode }
}

/// Prompts of a group are equal as far as they go.
fn visit(at_ms: f64, group: u64, prompt_tokens: u32, output_tokens: u32) -> Visit {
    let known = (0..u64::from(prompt_tokens / PAGE)).map(|block| group * 1000 + block).collect();
    Visit {
        at: Nanos::from_ms(at_ms),
        request: Request {
            prompt_tokens,
            max_output_tokens: output_tokens,
            hashes: BlockHashes { known, salt: at_ms.to_bits() },
            ..Request::default()
        },
    }
}

fn courses(kind: Kind, mode: TransferMode, visits: &[Visit]) -> Vec<Course> {
    let engines = [Role::Prefill, Role::Decode].map(|role| engine(kind, role, 1000));
    let [source, destination] = engines;
    let mut pair = Pair::new(source, destination, link(mode), visits);
    pair.run();
    assert!(pair.is_empty());
    pair.courses().to_vec()
}

/// Milliseconds: blocks reserved, prompt held, KV arrived, then each token.
fn times(course: &Course) -> (f64, f64, f64, Vec<f64>) {
    let tokens = course.tokens.iter().map(|at| at.as_ms()).collect();
    (course.reserved.as_ms(), course.held.as_ms(), course.activated.as_ms(), tokens)
}

#[test]
fn one_request_takes_prefill_then_transfer_then_a_decode_pass_per_token() {
    use TransferMode::{DestinationMissing, FullPrompt};
    for (kind, mode, reserved, transfer) in [
        // 100 tokens, and 112 in whole blocks of 16.
        (Kind::Vllm, FullPrompt, 10.0, 5.0),
        (Kind::Vllm, DestinationMissing, 10.0, 5.6),
        (Kind::Sglang, FullPrompt, 0.0, 5.0),
        (Kind::Sglang, DestinationMissing, 0.0, 5.6),
    ] {
        let [course] = &courses(kind, mode, &[visit(0.0, 1, 100, 3)])[..] else { panic!("one") };
        let activated = 10.0 + transfer;
        let tokens = [2.0, 4.0, 6.0].map(|after| activated + after).to_vec();
        assert_eq!(times(course), (reserved, 10.0, activated, tokens), "{kind:?} {mode:?}");
    }
}

/// The second request comes while the prompt of the first one is computed, so its own is computed from 10 to 20 ms. The
/// first one decodes from 15 to 21 ms.
#[test]
fn the_second_of_two_requests_waits_for_the_pass_in_which_its_blocks_are_reserved() {
    let visits = [visit(0.0, 1, 100, 3), visit(4.0, 2, 100, 3)];
    for (kind, second) in [
        // Asked for blocks at 20 ms, in the middle of the pass that ends at 21 ms.
        (Kind::Vllm, (21.0, 20.0, 26.0, vec![28.0, 30.0, 32.0])),
        // The destination was idle at 4 ms.
        (Kind::Sglang, (4.0, 20.0, 25.0, vec![27.0, 29.0, 31.0])),
    ] {
        let courses = courses(kind, TransferMode::FullPrompt, &visits);
        let first = times(&courses[0]);
        assert_eq!((first.1, first.2, first.3), (10.0, 15.0, vec![17.0, 19.0, 21.0]), "{kind:?}");
        assert_eq!(times(&courses[1]), second, "{kind:?}");
    }
}

#[test]
fn who_arrives_while_another_decodes_joins_its_next_pass() {
    let visits = [visit(0.0, 1, 100, 10), visit(5.0, 2, 100, 2)];
    for (kind, reserved, activated, tokens) in [
        // Asked for blocks at 20 ms; the pass in progress ends at 21 ms, and the next one, which takes them, at 23 ms. The
        // KV arrives in the pass from 27 to 29 ms.
        (Kind::Vllm, 23.0, 28.0, [31.0, 33.0]),
        // The KV arrives just when a pass ends.
        (Kind::Sglang, 5.0, 25.0, [27.0, 29.0]),
    ] {
        let courses = courses(kind, TransferMode::FullPrompt, &visits);
        let decoded: Vec<_> = (0..10).map(|pass| 17.0 + f64::from(pass) * 2.0).collect();
        assert_eq!(times(&courses[0]).3, decoded, "{kind:?}");
        assert_eq!(times(&courses[1]), (reserved, 20.0, activated, tokens.to_vec()), "{kind:?}");
    }
}

#[test]
fn what_the_destination_knows_does_not_travel() {
    // The same prompt again: 96 of its 100 tokens are full blocks that the destination keeps; 16 of 112 are missing.
    let visits = [visit(0.0, 1, 100, 1), visit(100.0, 1, 100, 1)];
    for (kind, reserved) in [(Kind::Vllm, 110.0), (Kind::Sglang, 100.0)] {
        let courses = courses(kind, TransferMode::DestinationMissing, &visits);
        assert_eq!(times(&courses[1]), (reserved, 110.0, 110.8, vec![112.8]), "{kind:?}");
    }
}

fn visits() -> impl Strategy<Value = Vec<Visit>> {
    // Tenths of milliseconds, so that some come just when a step ends.
    let drawn = (0..4000u32, 0..4u64, 1..150u32, 1..60u32);
    prop::collection::vec(drawn, 1..40).prop_map(|mut drawn| {
        drawn.sort_unstable();
        let numbered = (0..).zip(drawn).map(|(number, (at, group, prompt_tokens, output_tokens))| {
            let mut visit = visit(f64::from(at) / 10.0, group, prompt_tokens, output_tokens);
            visit.request.hashes.salt = number;
            visit
        });
        numbered.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn every_request_gets_all_its_tokens_in_order_and_no_block_is_left(
        kind in prop_oneof![Just(Kind::Vllm), Just(Kind::Sglang)],
        mode in prop_oneof![Just(TransferMode::FullPrompt), Just(TransferMode::DestinationMissing)],
        blocks in (16..60u32, 16..60u32),
        visits in visits(),
    ) {
        let (source, destination) = (engine(kind, Role::Prefill, blocks.0), engine(kind, Role::Decode, blocks.1));
        let fits = |visit: &Visit| {
            let Request { prompt_tokens, max_output_tokens, .. } = visit.request;
            source.check(prompt_tokens, max_output_tokens).is_ok()
                && destination.check(prompt_tokens, max_output_tokens).is_ok()
        };
        let visits: Vec<_> = visits.into_iter().filter(fits).collect();
        let mut pair = Pair::new(source, destination, link(mode), &visits);
        pair.run();
        prop_assert!(pair.is_empty());
        for (visit, course) in visits.iter().zip(pair.courses()) {
            let Course { held, reserved, activated, tokens } = course;
            prop_assert_eq!(tokens.len(), visit.request.max_output_tokens as usize);
            prop_assert!(tokens.is_sorted_by(|before, after| before < after));
            prop_assert!(visit.at <= *reserved.min(held) && *activated < tokens[0]);
            match kind {
                Kind::Vllm => prop_assert!(held <= reserved),
                Kind::Sglang => prop_assert!(reserved < held),
            }
            let prompt_tokens = visit.request.prompt_tokens;
            let full_prompt = link(TransferMode::FullPrompt);
            let took = *activated - *reserved.max(held);
            match mode {
                TransferMode::FullPrompt => prop_assert_eq!(took, full_prompt.delay(prompt_tokens, 0)),
                TransferMode::DestinationMissing => {
                    prop_assert!(took <= full_prompt.delay(prompt_tokens.next_multiple_of(PAGE), 0));
                }
            }
        }
    }
}
