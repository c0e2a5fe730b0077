//! Whenever the engine's thread wakes up, it decides what an offline run with the same arrivals decides.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use dynosim_engine::{
    BlockHashes, Engine, EngineConfig, Horizon, Nanos, Request, Role, SchedulerConfig, Step, Ticket, Timing,
    TimingModel, sglang, timing::Linear, vllm,
};
use dynosim_worker::{Command, Content, Due, Flights, Observe, Pace, Progress, Serial, Stamped, Submission};
use proptest::prelude::*;

const PAGE: u32 = 16;

/// A request, when it comes, and when its client gives up.
#[derive(Clone, Debug)]
struct Visit {
    arrival: u64,
    patience: Option<u64>,
    group: u64,
    prompt_tokens: u32,
    output_tokens: u32,
}

impl Visit {
    /// Prompts of a group are equal as far as they go.
    fn request(&self, serial: u64) -> Request {
        let known = (0..u64::from(self.prompt_tokens / PAGE)).map(|block| self.group * 1000 + block).collect();
        Request {
            prompt_tokens: self.prompt_tokens,
            max_output_tokens: self.output_tokens,
            hashes: BlockHashes { known, salt: serial },
            ..Request::default()
        }
    }
}

/// What is asked for and when: (time, number of the visit, whether it gives up).
fn commands(visits: &[Visit]) -> Vec<(u64, usize, bool)> {
    let mut commands = Vec::new();
    for (number, visit) in visits.iter().enumerate() {
        commands.push((visit.arrival, number, false));
        commands.extend(visit.patience.map(|patience| (visit.arrival + patience, number, true)));
    }
    commands.sort_unstable();
    commands
}

#[derive(Default)]
struct Log(String);

impl Log {
    fn step(&mut self, step: &Step, serial: impl Fn(Ticket) -> Option<u64>) {
        for (rank, pass) in (0..).zip(&step.ranks) {
            let who = |request| serial(Ticket { rank, request });
            let admitted: Vec<_> =
                pass.admitted.iter().filter_map(|a| Some((who(a.request)?, a.cached_tokens, a.resumed))).collect();
            let preempted: Vec<_> = pass.preempted.iter().filter_map(|&id| who(id)).collect();
            let emitted: Vec<_> = pass.emitted.iter().filter_map(|e| Some((who(e.request)?, e.tokens))).collect();
            let finished: Vec<_> = pass.finished.iter().filter_map(|&id| who(id)).collect();
            writeln!(
                self.0,
                "{:?}..{:?} rank {rank}: {:?} {:?} {admitted:?} {preempted:?} {emitted:?} {finished:?} {:?} {:?}",
                step.start, step.ends, pass.prefill, pass.decode, pass.events.items, pass.events.hashes
            )
            .expect("text");
        }
    }
}

impl Observe for Log {
    fn stepped(&mut self, _engine: &Engine, step: &Step, flights: &Flights) {
        self.step(step, |ticket| flights.get(ticket.rank, ticket.request).map(|flight| flight.serial.0));
    }
}

/// Stops at every event, as the offline event loop does: ends of steps first, then arrivals, then an idle engine starts.
fn offline(config: EngineConfig, visits: &[Visit]) -> String {
    let mut engine = Engine::new(config);
    let mut commands: VecDeque<_> = commands(visits).into();
    let mut tickets: Vec<Option<Ticket>> = vec![None; visits.len()];
    let mut log = Log::default();
    loop {
        let command = commands.front().map(|&(at, ..)| Nanos(at));
        let Some(now) = command.into_iter().chain(engine.busy_until()).min() else { return log.0 };
        let mut changed = false;
        if engine.busy_until() == Some(now) {
            let step = engine.finish();
            log.step(step, |ticket| tickets.iter().position(|&other| other == Some(ticket)).map(|n| n as u64));
            for (rank, pass) in (0..).zip(&step.ranks) {
                for &request in &pass.finished {
                    tickets.iter_mut().filter(|t| **t == Some(Ticket { rank, request })).for_each(|t| *t = None);
                }
            }
            changed = true;
        }
        while let Some((_, number, gives_up)) = commands.pop_front_if(|&mut (at, ..)| Nanos(at) <= now) {
            let visit = &visits[number];
            if !gives_up && engine.check(visit.prompt_tokens, visit.output_tokens).is_ok() {
                tickets[number] = Some(engine.submit(now, None, visit.request(number as u64)));
            } else if let Some(ticket) = tickets[number].take() {
                engine.abort(now, ticket);
            }
            changed = true;
        }
        if changed && engine.busy_until().is_none() {
            engine.start(now, Horizon::Pass);
        }
    }
}

/// Wakes up at these gaps only, then when nothing is left to wait for.
fn live(config: EngineConfig, visits: &[Visit], gaps: &[u64]) -> String {
    let mut pace = Pace::new(Engine::new(config));
    let mut log = Log::default();
    let mut stamped: VecDeque<_> = VecDeque::new();
    let mut left: VecDeque<_> = commands(visits).into();
    let mut gaps = gaps.iter().copied().cycle();
    let mut now = 0;
    while !left.is_empty() || pace.busy_until().is_some() {
        now += gaps.next().expect("a cycle").max(1);
        while let Some((at, number, gives_up)) = left.pop_front_if(|&mut (at, ..)| at <= now) {
            let serial = Serial(number as u64);
            let command = if gives_up {
                Command::Abort(serial)
            } else {
                let request = visits[number].request(serial.0);
                Command::Submit(Box::new(Submission::new(
                    serial,
                    request,
                    Content::default(),
                    &Arc::new(Progress::default()),
                )))
            };
            stamped.push_back(Stamped { at: Nanos(at), command });
        }
        while pace.advance(Nanos(now), &mut stamped, &mut log) == Due::Now {}
        pace.deliver();
    }
    log.0
}

fn visits() -> impl Strategy<Value = Vec<Visit>> {
    let visit = (0..40_000_000u64, prop::option::weighted(0.2, 0..30_000_000u64), 0..3u64, 1..200u32, 1..40u32)
        .prop_map(|(arrival, patience, group, prompt_tokens, output_tokens)| Visit {
            // Some come at the same instant, some just when a step ends.
            arrival: arrival / 500_000 * 500_000,
            patience,
            group,
            prompt_tokens,
            output_tokens,
        });
    prop::collection::vec(visit, 1..25)
}

fn config() -> impl Strategy<Value = EngineConfig> {
    let timings = prop_oneof![
        Just(Linear { pass_ms: 1.0, prefill_ms_per_token: 0.01, decode_ms_per_request: 0.1, ..Linear::default() }),
        Just(Linear { pass_ms: 0.5, ..Linear::default() }),
        Just(Linear::default()),
    ];
    let shape = (any::<bool>(), 20..80u32, prop::option::of(1..6u32), any::<bool>(), 1..3u32);
    (timings, shape).prop_map(|(timing, (is_vllm, blocks, max_num_seqs, async_scheduling, dp_size))| {
        let scheduler = if is_vllm {
            SchedulerConfig::Vllm(vllm::Config {
                num_gpu_blocks: blocks,
                block_size: PAGE,
                max_num_seqs,
                max_num_batched_tokens: Some(64),
                async_scheduling,
                ..vllm::Config::default()
            })
        } else {
            SchedulerConfig::Sglang(sglang::Config {
                page_size: PAGE,
                capacity_tokens: u64::from(blocks * PAGE),
                max_running_requests: max_num_seqs,
                chunked_prefill_size: Some(64),
                ..sglang::Config::default()
            })
        };
        EngineConfig {
            scheduler,
            dp_size,
            timing: Timing::new(TimingModel::Linear(timing), 1.0, 1.0),
            kv_capacity_tokens: u64::from(blocks * PAGE),
            role: Role::Aggregated,
            emit_kv_events: true,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn late_wake_ups_decide_nothing(
        config in config(),
        visits in visits(),
        gaps in prop::collection::vec(prop_oneof![1..2_000u64, 50_000..3_000_000u64, Just(100_000_000)], 1..20),
    ) {
        // Far apart gaps of nanoseconds alone would take for ever.
        let gaps: Vec<_> = gaps.into_iter().chain([700_000]).collect();
        let expected = offline(config.clone(), &visits);
        prop_assert_eq!(live(config, &visits, &gaps), expected);
    }
}

#[test]
fn a_pass_takes_only_who_came_before_it_began_even_if_the_thread_slept_through_both() {
    let timing = Linear { pass_ms: 1.0, prefill_ms_per_token: 0.01, ..Linear::default() };
    let config = EngineConfig {
        scheduler: SchedulerConfig::Vllm(vllm::Config { block_size: PAGE, ..vllm::Config::default() }),
        dp_size: 1,
        timing: Timing::new(TimingModel::Linear(timing), 1.0, 1.0),
        kv_capacity_tokens: 1 << 20,
        role: Role::Aggregated,
        emit_kv_events: false,
    };
    let visit = |arrival| Visit { arrival, patience: None, group: arrival, prompt_tokens: 100, output_tokens: 3 };
    // The first pass lasts from 0 to 2 ms; the third visit comes a nanosecond after the second pass has begun.
    let visits = [visit(0), visit(2_000_000), visit(2_000_001)];
    let log = live(config, &visits, &[500_000_000]);
    let starts: Vec<_> = log.lines().map(|line| line.split("..").next().expect("a start")).collect();
    assert_eq!(starts[..3], ["Nanos(0)", "Nanos(2000000)", "Nanos(4000000)"]);
    let admitted: Vec<_> = log.lines().map(|line| line.matches(", 0, false)").count()).collect();
    assert_eq!(admitted[..3], [1, 1, 1]);
}
