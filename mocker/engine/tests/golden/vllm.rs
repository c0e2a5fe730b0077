//! Logs of the vLLM V1 scheduler. The format is described where the logs are kept (`golden/vllm/README.md`).

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use dynosim_engine::kv::Eviction;
use dynosim_engine::pass::{KvEvent, Pass, Scheduler as _};
use dynosim_engine::vllm::{Config, Kind, Policy, Scheduler};
use dynosim_engine::{BlockHashes, KvEvents, Request, RequestId};
use serde_json::{Map, Value, json};

use crate::report::{self, Report};
use crate::tokens;

/// A scenario that drains nobody ends here.
const STEPS_MAX: u64 = 1_000_000;
/// So many steps in a row without work, and nothing to come, are a stall.
const IDLE_STEPS_MAX: u32 = 3;

pub(crate) fn run(folder: &Path) -> Report {
    let mut report = Report::default();
    for path in report::scenarios(folder) {
        let scenario = report::read_json(&path);
        let steps = path.to_string_lossy().replace(report::SCENARIO, ".steps.jsonl");
        let expected = report::read_lines(Path::new(&steps));
        let name = format!("vllm/{}", scenario["name"].as_str().unwrap_or("?"));
        report.add(&name, Driver::new(&scenario).compare_with(&expected));
    }
    report
}

struct Arrival {
    step: u64,
    name: String,
    request: Request,
}

/// One logged run. Keeps what the log keeps: names, steps, renamed hashes, totals.
struct Driver {
    scheduler: Scheduler,
    asynchronous: bool,
    arrivals: VecDeque<Arrival>,
    actions: VecDeque<Value>,
    max_steps: u64,
    names: BTreeMap<RequestId, String>,
    alive: Vec<(String, RequestId)>,
    /// Steps whose output is not processed yet.
    batches: VecDeque<u64>,
    /// Somebody left since the last call of `schedule`.
    departures: bool,
    hashes: BTreeMap<u64, usize>,
    /// Per running request: tokens computed after its last pass.
    computed: BTreeMap<RequestId, u32>,
    totals: Totals,
}

#[derive(Default)]
struct Totals {
    sched_tokens: u64,
    preemptions: u64,
    hit_tokens: u64,
    new_admissions: u64,
    resumptions: u64,
    finished: u64,
    steps_scheduled: u64,
    max_running: usize,
}

impl Driver {
    fn new(scenario: &Value) -> Self {
        let config = config(&scenario["engine"]);
        let requests = scenario["requests"].as_array().expect("requests");
        let ids: Vec<_> = requests.iter().map(|request| request["id"].as_str().expect("id").to_owned()).collect();
        let index_of = ids.iter().enumerate().map(|(index, id)| (id.clone(), index)).collect();
        let arrivals = requests.iter().enumerate().map(|(index, request)| {
            let mut all = tokens::expand(&request["prompt"], &index_of);
            assert_eq!(Some(all.len() as u64), request["prompt_len"].as_u64());
            assert_eq!(Some(u64::from(tokens::crc32(all.iter().copied()))), request["prompt_crc32"].as_u64());
            let prompt_tokens = all.len() as u32;
            let max_output_tokens = request["max_tokens"].as_u64().expect("max_tokens") as u32;
            all.extend((0..max_output_tokens).map(|k| tokens::output(index, u64::from(k))));
            let known = tokens::chain(&all, config.block_size as usize);
            let priority = request.get("priority").and_then(Value::as_i64).unwrap_or(0) as i32;
            let hashes = BlockHashes { known, salt: 0 };
            let request_value = Request { prompt_tokens, max_output_tokens, priority, hashes, ..Request::default() };
            let step = request["arrival_step"].as_u64().expect("arrival_step");
            Arrival { step, name: ids[index].clone(), request: request_value }
        });
        let mut arrivals: Vec<_> = arrivals.collect();
        arrivals.sort_by_key(|arrival| arrival.step);
        let mut actions = scenario.get("actions").and_then(Value::as_array).cloned().unwrap_or_default();
        actions.sort_by_key(|action| action["step"].as_u64());
        Self {
            asynchronous: config.async_scheduling,
            scheduler: Scheduler::new(config),
            arrivals: arrivals.into(),
            actions: actions.into(),
            max_steps: scenario.get("max_steps").and_then(Value::as_u64).unwrap_or(STEPS_MAX),
            names: BTreeMap::new(),
            alive: Vec::new(),
            batches: VecDeque::new(),
            departures: false,
            hashes: BTreeMap::new(),
            computed: BTreeMap::new(),
            totals: Totals::default(),
        }
    }

    fn compare_with(mut self, expected: &[Value]) -> Result<(), String> {
        let mut expected = expected.iter();
        let mut idle_steps = 0;
        let mut end = "max_steps";
        for step in 0..self.max_steps {
            let to_come = !self.arrivals.is_empty() || !self.actions.is_empty();
            let pending =
                self.scheduler.unfinished() > 0 || (self.asynchronous && (self.departures || !self.batches.is_empty()));
            if !to_come && !pending {
                end = "drained";
                break;
            }
            let Some(line) = self.step(step) else { continue };
            let place = format!("step {step}");
            let want = expected.next().ok_or_else(|| format!("{place}: the log has ended, got {line}"))?;
            report::compare(&place, want, &line)?;
            let worked = line.get("sched").and_then(Value::as_array).is_some_and(|sched| !sched.is_empty());
            idle_steps = if worked || self.scheduler.unfinished() == 0 { 0 } else { idle_steps + 1 };
            if idle_steps == IDLE_STEPS_MAX && self.arrivals.is_empty() && self.actions.is_empty() {
                end = "stalled";
                break;
            }
        }
        let want = expected.next().ok_or("the log has no end line")?;
        report::compare("end line", want, &self.end_line(end))?;
        expected.next().map_or(Ok(()), |line| Err(format!("the log goes on: {line}")))
    }

    /// Runs one step; none if nothing is known and nothing happens.
    fn step(&mut self, step: u64) -> Option<Value> {
        let mut line = Map::new();
        line.insert("step".to_owned(), json!(step));
        let mut pass = Pass { events: KvEvents { enabled: true, ..KvEvents::default() }, ..Pass::default() };
        let acted = self.act(step, &mut line, &mut pass);
        let added = self.add(step);
        let pending = self.scheduler.unfinished() > 0 || (self.asynchronous && self.departures);
        if !pending && self.batches.is_empty() {
            if !acted {
                return None;
            }
            line.insert("idle".to_owned(), json!(true));
        } else {
            line.insert("add".to_owned(), json!(added));
            if pending {
                self.departures = false;
                self.schedule(&mut line, &mut pass);
                self.batches.push_back(step);
            }
            self.complete(pending, &mut line, &mut pass);
            line.insert("run".to_owned(), json!(self.scheduler.running()));
            line.insert("wait".to_owned(), json!(self.scheduler.waiting()));
        }
        line.insert("free".to_owned(), json!(self.scheduler.pool().free()));
        line.insert("ev".to_owned(), self.events(&pass.events));
        Some(Value::Object(line))
    }

    fn act(&mut self, step: u64, line: &mut Map<String, Value>, pass: &mut Pass) -> bool {
        let mut results = Vec::new();
        while self.actions.front().is_some_and(|action| action["step"].as_u64() == Some(step)) {
            let action = self.actions.pop_front().expect("just seen");
            let name = action["op"].as_str().expect("op");
            let result = if name == "abort" {
                json!(self.abort(action["ids"].as_array().expect("ids")))
            } else if action.get("reset_running").and_then(Value::as_bool) == Some(true) {
                let mut preempted = Vec::new();
                let done = self.scheduler.reset_running_and_cache(&mut preempted, &mut pass.events);
                self.totals.preemptions += preempted.len() as u64;
                line.insert("preempt_by_action".to_owned(), self.name_all(&preempted));
                json!(done)
            } else {
                json!(self.scheduler.reset_prefix_cache(&mut pass.events))
            };
            results.push(json!([name, result]));
        }
        line.insert("act".to_owned(), json!(results));
        !results.is_empty()
    }

    fn abort(&mut self, ids: &[Value]) -> Vec<String> {
        let mut aborted = Vec::new();
        for id in ids.iter().filter_map(Value::as_str) {
            if let Some(position) = self.alive.iter().position(|(name, _)| name == id) {
                let (name, request) = self.alive.remove(position);
                assert!(self.scheduler.abort(request), "{name} is alive");
                self.departures = true;
                aborted.push(name);
            }
        }
        aborted
    }

    fn add(&mut self, step: u64) -> Vec<String> {
        let mut added = Vec::new();
        while self.arrivals.front().is_some_and(|arrival| arrival.step == step) {
            let arrival = self.arrivals.pop_front().expect("just seen");
            let id = self.scheduler.submit(arrival.request);
            self.names.insert(id, arrival.name.clone());
            self.alive.push((arrival.name.clone(), id));
            added.push(arrival.name);
        }
        added
    }

    fn schedule(&mut self, line: &mut Map<String, Value>, pass: &mut Pass) {
        self.scheduler.schedule(pass);
        let mut sched = Vec::new();
        let mut cached = Map::new();
        for entry in self.scheduler.scheduled() {
            let name = &self.names[&entry.request];
            let blocks = self.scheduler.blocks_of(entry.request);
            let new: Vec<_> = blocks[entry.blocks_before as usize..].iter().map(|block| block.0).collect();
            let kind = match entry.kind {
                Kind::New => "new",
                Kind::Resumed => "res",
                Kind::Running => "run",
            };
            let follows = self.computed.get(&entry.request) == Some(&entry.computed_before);
            if entry.kind == Kind::Running && entry.tokens == 1 && new.is_empty() && follows {
                sched.push(json!(name));
            } else {
                sched.push(json!([name, kind, entry.tokens, entry.computed_before, blocks.len(), new]));
            }
            if entry.kind != Kind::Running {
                cached.insert(name.clone(), json!(entry.computed_before));
                self.totals.hit_tokens += u64::from(entry.computed_before);
            }
            self.totals.new_admissions += u64::from(entry.kind == Kind::New);
            self.totals.resumptions += u64::from(entry.kind == Kind::Resumed);
            self.totals.sched_tokens += u64::from(entry.tokens);
            self.computed.insert(entry.request, entry.computed_before + entry.tokens);
        }
        self.totals.preemptions += pass.preempted.len() as u64;
        self.totals.steps_scheduled += u64::from(!sched.is_empty());
        self.totals.max_running = self.totals.max_running.max(self.scheduler.running());
        line.insert("sched".to_owned(), json!(sched));
        line.insert("cached".to_owned(), Value::Object(cached));
        line.insert("preempt".to_owned(), self.name_all(&pass.preempted));
        line.insert("free_sched".to_owned(), json!(self.scheduler.pool().free()));
    }

    fn complete(&mut self, scheduled: bool, line: &mut Map<String, Value>, pass: &mut Pass) {
        let worked = scheduled && !self.scheduler.scheduled().is_empty();
        let wait = self.asynchronous && worked && self.batches.len() < 2;
        let processed = if wait { None } else { self.batches.pop_front() };
        if processed.is_some() {
            self.scheduler.complete(pass);
        }
        for &id in &pass.finished {
            self.totals.finished += 1;
            self.departures = true;
            self.alive.retain(|&(_, other)| other != id);
        }
        line.insert("fin".to_owned(), self.name_all(&pass.finished));
        if self.asynchronous {
            line.insert("upd".to_owned(), json!(processed));
        }
    }

    fn name_all(&self, ids: &[RequestId]) -> Value {
        json!(ids.iter().map(|id| self.names[id].clone()).collect::<Vec<_>>())
    }

    /// Events with hashes replaced by numbers in order of first appearance.
    fn events(&mut self, events: &KvEvents) -> Value {
        let mut rename = |hash: u64| {
            let next = self.hashes.len();
            *self.hashes.entry(hash).or_insert(next)
        };
        let mut list = Vec::new();
        for &event in &events.items {
            match event {
                KvEvent::Stored { parent, start, len, .. } => {
                    let parent = parent.map(&mut rename);
                    let stored = &events.hashes[start as usize..(start + len) as usize];
                    list.push(json!(["S", parent, stored.iter().map(|&hash| rename(hash)).collect::<Vec<_>>()]));
                }
                KvEvent::Removed { start, len } => {
                    let removed = &events.hashes[start as usize..(start + len) as usize];
                    list.extend(removed.iter().map(|&hash| json!(["R", rename(hash)])));
                }
                KvEvent::Cleared => list.push(json!(["C"])),
            }
        }
        json!(list)
    }

    fn end_line(&self, end: &str) -> Value {
        let totals = &self.totals;
        let order = self.scheduler.pool().free_order();
        let mut line = json!({
            "end": end,
            "totals": {
                "sched_tokens": totals.sched_tokens, "preemptions": totals.preemptions,
                "hit_tokens": totals.hit_tokens, "new_admissions": totals.new_admissions,
                "resumptions": totals.resumptions, "finished": totals.finished,
                "steps_scheduled": totals.steps_scheduled, "max_running": totals.max_running,
            },
            "free": self.scheduler.pool().free(),
            "unfinished": self.alive.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        });
        if order.len() <= 2048 {
            line["free_queue"] = json!(order.iter().map(|block| block.0).collect::<Vec<_>>());
        }
        line
    }
}

fn config(engine: &Value) -> Config {
    let known = [
        "num_gpu_blocks",
        "block_size",
        "max_num_seqs",
        "max_num_batched_tokens",
        "max_model_len",
        "enable_prefix_caching",
        "enable_chunked_prefill",
        "long_prefill_token_threshold",
        "scheduler_reserve_full_isl",
        "watermark",
        "policy",
        "max_num_active_seqs",
        "prefill_schedule_interval",
        "async_scheduling",
    ];
    for key in engine.as_object().expect("engine").keys() {
        assert!(known.contains(&key.as_str()), "unknown engine setting {key}");
    }
    let number = |key: &str| engine.get(key).and_then(Value::as_u64).map(|value| value as u32);
    let flag = |key: &str, default: bool| engine.get(key).and_then(Value::as_bool).unwrap_or(default);
    Config {
        num_gpu_blocks: number("num_gpu_blocks").expect("num_gpu_blocks"),
        block_size: number("block_size").expect("block_size"),
        max_num_seqs: number("max_num_seqs"),
        max_num_batched_tokens: number("max_num_batched_tokens"),
        max_model_len: number("max_model_len"),
        enable_prefix_caching: flag("enable_prefix_caching", true),
        enable_chunked_prefill: flag("enable_chunked_prefill", true),
        long_prefill_token_threshold: number("long_prefill_token_threshold").unwrap_or(0),
        scheduler_reserve_full_isl: flag("scheduler_reserve_full_isl", true),
        watermark: engine.get("watermark").and_then(Value::as_f64).unwrap_or(0.0),
        policy: match engine.get("policy").and_then(Value::as_str) {
            None | Some("fcfs") => Policy::Fcfs,
            Some("priority") => Policy::Priority,
            Some(other) => panic!("unknown policy {other}"),
        },
        max_num_active_seqs: number("max_num_active_seqs"),
        prefill_schedule_interval: number("prefill_schedule_interval").unwrap_or(1),
        async_scheduling: flag("async_scheduling", false),
        eviction: Eviction::Lru,
        ..Config::default()
    }
}
