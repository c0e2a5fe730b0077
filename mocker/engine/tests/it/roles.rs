//! Prefill and decode engines of a disaggregated graph.

use dynosim_engine::pass::KvEvent;
use dynosim_engine::{
    BlockHashes, Engine, EngineConfig, Horizon, Mtp, Nanos, Request, Role, SchedulerConfig, sglang, vllm,
};

use crate::drive::engine;

fn engines(role: Role) -> [Engine; 2] {
    let vllm = vllm::Config { num_gpu_blocks: 33, block_size: 16, role, ..vllm::Config::default() };
    let sglang = sglang::Config { page_size: 16, capacity_tokens: 512, role, ..sglang::Config::default() };
    [SchedulerConfig::Vllm(vllm), SchedulerConfig::Sglang(sglang)]
        .map(|scheduler| Engine::new(EngineConfig { role, ..engine(scheduler, 512) }))
}

fn request(prompt_tokens: u32, max_output_tokens: u32, salt: u64) -> Request {
    let known = (0..u64::from(prompt_tokens / 16)).map(|block| salt * 100 + block).collect();
    let hashes = BlockHashes { known, salt };
    Request { prompt_tokens, max_output_tokens, hashes, ignore_eos: true, ..Request::default() }
}

#[test]
fn a_prefill_engine_makes_one_token_and_holds_the_kv_until_it_is_released() {
    for mut engine in engines(Role::Prefill) {
        let ticket = engine.submit(Nanos::ZERO, None, request(100, 50, 1));
        let end = engine.start(Nanos::ZERO, Horizon::Run).expect("there is work");
        let step = engine.finish();
        assert_eq!(step.ranks[0].emitted.len(), 1);
        assert_eq!(step.ranks[0].finished, [ticket.request]);
        assert_eq!(engine.unfinished(), 0);
        assert_eq!(engine.active_blocks(), 7);
        assert_eq!(engine.start(end, Horizon::Run), None);
        engine.release(end, ticket);
        assert_eq!(engine.active_blocks(), 0);
    }
}

#[test]
fn a_decode_engine_reserves_then_decodes_without_prefill_time() {
    for mut engine in engines(Role::Decode) {
        let ticket = engine.submit(Nanos::ZERO, None, request(100, 3, 1));
        assert_eq!(engine.start(Nanos::ZERO, Horizon::Run), Some(Nanos::ZERO));
        let step = engine.finish();
        assert!(step.ends.is_empty());
        assert_eq!(step.ranks[0].reserved, [ticket.request]);
        assert!(engine.active_blocks() >= 7);
        assert_eq!(engine.start(Nanos::ZERO, Horizon::Run), None, "the KV is not there yet");

        let mut now = Nanos::from_ms(20.0);
        engine.activate(now, ticket);
        let mut ends = Vec::new();
        while let Some(end) = engine.start(now, Horizon::Run) {
            let step = engine.finish();
            assert_eq!(step.ranks[0].prefill.new_tokens, 0);
            ends.extend(step.ends.iter().copied());
            now = end;
        }
        assert_eq!(ends.len(), 3);
        assert!(ends[0] < Nanos::from_ms(20.0) + Nanos::from_ms(20.0), "one decode pass, no prefill");
        assert_eq!((engine.unfinished(), engine.active_blocks()), (0, 0));
    }
}

#[test]
fn reservations_wait_in_order_for_blocks() {
    for mut engine in engines(Role::Decode) {
        let first = engine.submit(Nanos::ZERO, None, request(300, 3, 1));
        let second = engine.submit(Nanos::ZERO, None, request(300, 3, 2));
        engine.start(Nanos::ZERO, Horizon::Run);
        assert_eq!(engine.finish().ranks[0].reserved, [first.request]);
        assert!(engine.abort(Nanos::ZERO, first));
        engine.start(Nanos::ZERO, Horizon::Run);
        assert_eq!(engine.finish().ranks[0].reserved, [second.request]);
    }
}

#[test]
fn dropping_the_prefix_cache_of_an_idle_engine_is_reported_with_its_next_step() {
    let scheduler =
        SchedulerConfig::Vllm(vllm::Config { num_gpu_blocks: 33, block_size: 16, ..vllm::Config::default() });
    let mut engine = Engine::new(EngineConfig { emit_kv_events: true, ..engine(scheduler, 512) });
    assert!(engine.reset_prefix_cache(Nanos::ZERO));
    assert_eq!(engine.start(Nanos::ZERO, Horizon::Run), None);
    engine.submit(Nanos::ZERO, None, request(20, 1, 1));
    let step = engine.step(Nanos::ZERO).expect("there is work");
    assert_eq!(step.ranks[0].events.items[0], KvEvent::Cleared);
    assert_eq!(step.ranks[0].events.items.len(), 2, "one block was stored");
    let now = step.end();
    engine.submit(now, None, request(20, 1, 2));
    let step = engine.step(now).expect("there is work");
    assert!(!step.ranks[0].events.items.contains(&KvEvent::Cleared), "once only");
}

#[test]
fn a_decode_engine_reserves_room_for_drafts_too() {
    let config = vllm::Config {
        num_gpu_blocks: 6,
        block_size: 16,
        role: Role::Decode,
        mtp: Some(Mtp::new(2, &[1.0, 1.0], 7)),
        ..vllm::Config::default()
    };
    let scheduler = SchedulerConfig::Vllm(config);
    let mut engine = Engine::new(EngineConfig { role: Role::Decode, ..engine(scheduler, 96) });
    // 2 blocks each without drafts, 3 with them: the second one has to wait although the pool has 5.
    let first = engine.submit(Nanos::ZERO, None, request(32, 9, 1));
    let second = engine.submit(Nanos::ZERO, None, request(32, 9, 2));
    assert_eq!(engine.step(Nanos::ZERO).expect("there is room").ranks[0].reserved, [first.request]);
    assert_eq!(engine.active_blocks(), 3);
    engine.activate(Nanos::ZERO, first);
    let mut now = Nanos::ZERO;
    let mut reserved = false;
    while let Some(step) = engine.step(now) {
        now = step.end();
        if step.ranks[0].reserved.contains(&second.request) {
            reserved = true;
            engine.activate(now, second);
        }
    }
    assert!(reserved);
    assert_eq!((engine.unfinished(), engine.active_blocks()), (0, 0));
}

/// Guaranteed-no-evict admission counts blocks from reservation to release, in every role.
#[test]
fn promises_of_blocks_are_kept_and_taken_back_in_every_role() {
    for role in [Role::Prefill, Role::Decode] {
        let config = vllm::Config {
            num_gpu_blocks: 33,
            block_size: 16,
            role,
            capacity: vllm::Capacity::GuaranteedNoEvict,
            ..vllm::Config::default()
        };
        let mut engine = Engine::new(EngineConfig { role, ..engine(SchedulerConfig::Vllm(config), 512) });
        // Each round fills most of the pool, so what one leaves promised would lock the next one out.
        for round in 0..4 {
            let ticket = engine.submit(Nanos::ZERO, None, request(300, 100, 2 * round));
            let second = engine.submit(Nanos::ZERO, None, request(300, 100, 2 * round + 1));
            engine.start(Nanos::ZERO, Horizon::Pass).expect("the first fits");
            let pass = &engine.finish().ranks[0];
            let entered = if role == Role::Decode { &pass.reserved } else { &pass.finished };
            assert_eq!(entered, &[ticket.request], "the second has to wait");
            if role == Role::Decode {
                engine.activate(Nanos::ZERO, ticket);
                assert!(engine.abort(Nanos::ZERO, second));
                while engine.step(Nanos::ZERO).is_some() {}
            } else {
                assert!(engine.step(Nanos::ZERO).is_none(), "held blocks stay promised");
                engine.release(Nanos::ZERO, ticket);
                engine.step(Nanos::ZERO).expect("now the second fits");
                assert!(engine.abort(Nanos::ZERO, second));
            }
            assert_eq!((engine.unfinished(), engine.active_blocks()), (0, 0));
        }
    }
}

#[test]
fn a_decode_engine_computes_a_prompt_that_nobody_else_has_in_its_own_time() {
    let first_token = |mut engine: Engine| {
        engine.submit_local(Nanos::ZERO, None, request(100, 3, 1));
        let end = engine.start(Nanos::ZERO, Horizon::Pass).expect("there is work");
        assert_eq!(engine.finish().ranks[0].emitted.len(), 1);
        end
    };
    for (decode, aggregated) in engines(Role::Decode).into_iter().zip(engines(Role::Aggregated)) {
        let took = first_token(decode);
        assert!(took > Nanos::ZERO);
        assert_eq!(took, first_token(aggregated));
    }
}

#[test]
fn stored_blocks_name_their_request_and_their_place_in_it() {
    for mut engine in engines(Role::Aggregated) {
        for salt in [1, 2] {
            engine.submit(Nanos::ZERO, None, request(100, 30, salt));
        }
        let mut places = vec![Vec::new(); 2];
        let mut now = Nanos::ZERO;
        while let Some(end) = engine.start(now, Horizon::Pass) {
            let events = &engine.finish().ranks[0].events;
            for item in &events.items {
                if let KvEvent::Stored { start, len, request, position, .. } = *item {
                    let own = 100 * (u64::from(request.0) + 1);
                    let hashes = &events.hashes[start as usize..(start + len) as usize];
                    for (block, &hash) in (u64::from(position)..).zip(hashes).take_while(|&(block, _)| block < 6) {
                        assert_eq!(hash, own + block);
                    }
                    places[request.index()].extend(position..position + len);
                }
            }
            now = end;
        }
        let expected: Vec<_> = (0..8).collect();
        assert_eq!(places, [expected.clone(), expected]);
    }
}

#[test]
fn a_pass_tells_the_lengths_behind_it_if_asked() {
    for mut engine in engines(Role::Aggregated) {
        engine.report_detail();
        engine.submit(Nanos::ZERO, None, request(100, 3, 1));
        engine.submit(Nanos::ZERO, None, request(40, 3, 2));
        assert_eq!(engine.queued(0).prompts.sum, 140);
        let end = engine.start(Nanos::ZERO, Horizon::Pass).expect("there is work");
        let prompts = engine.finish().ranks[0].detail.prompts;
        assert_eq!((prompts.count, prompts.sum, prompts.variance()), (2, 140, 900.0));
        engine.start(end, Horizon::Pass).expect("there is work");
        let step = engine.finish();
        let sequences = step.ranks[0].detail.sequences;
        assert_eq!((sequences.count, sequences.sum), (2, step.ranks[0].decode.kv_tokens));
        assert_eq!(step.ranks[0].detail.prompts.count, 0);
        assert_eq!(engine.queued(0).prompts.count, 0);
        assert_eq!(engine.load(0).unfinished, 2);
    }
}
