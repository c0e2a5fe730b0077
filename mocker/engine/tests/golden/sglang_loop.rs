//! `loop_*`: the whole scheduling loop.

use std::collections::HashMap;

use dynosim_engine::hash::BlockHashes;
use dynosim_engine::pass::{KvEvents, Pass, Scheduler as _};
use dynosim_engine::request::{Request, RequestId};
use dynosim_engine::sglang::{Config, Mode, QueuePolicy, Scheduler};
use serde_json::{Map, Value, json};

use crate::report::compare;
use crate::sglang::Names;
use crate::tokens;

/// Replays one log.
pub(crate) fn replay(scenario: &Value, log: &[Value]) -> Result<(), String> {
    let mut driver = Driver::new(scenario)?;
    let (end, steps) = log.split_last().ok_or("empty log")?;
    let mut next = 0;
    for expected in steps {
        let step = expected["step"].as_u64().expect("a step number");
        if step > next {
            // Steps in which nothing exists are not in the log, but the idle loop ran.
            driver.idle();
        }
        next = step + 1;
        let line = driver.step(step);
        compare(&format!("step {step}"), expected, &Value::Object(line))?;
    }
    compare("end", end, &driver.end())
}

struct Driver {
    scheduler: Scheduler,
    /// Not submitted yet: arrival step, name, request; the next one last.
    coming: Vec<(u64, String, Request)>,
    names: HashMap<RequestId, String>,
    hashes: Names,
    pass: Pass,
    totals: Totals,
    open: usize,
}

#[derive(Default)]
struct Totals {
    prefill_tokens: u64,
    hit_tokens: u64,
    retractions: u64,
    finished: u64,
    prefill_steps: u64,
    decode_steps: u64,
}

impl Driver {
    fn new(scenario: &Value) -> Result<Self, String> {
        let engine = &scenario["engine"];
        let page_size = number(&engine["page_size"]).expect("a page size");
        let config = config(engine, page_size);
        let requests = scenario["requests"].as_array().expect("requests");
        let index_of: HashMap<String, usize> =
            requests.iter().enumerate().map(|(i, request)| (text(&request["id"]), i)).collect();
        let mut coming = Vec::new();
        for (i, request) in requests.iter().enumerate() {
            let mut tokens = tokens::expand(&request["prompt"], &index_of);
            if json!(tokens::crc32(tokens.iter().copied())) != request["prompt_crc32"] {
                return Err(format!("the prompt of {} was expanded wrongly", request["id"]));
            }
            let prompt_tokens = tokens.len() as u32;
            let max_output_tokens = number(&request["max_tokens"]).expect("a limit");
            tokens.extend((0..u64::from(max_output_tokens)).map(|pos| tokens::output(i, pos)));
            let known = tokens::chain(&tokens, page_size as usize);
            let ignore_eos = request["ignore_eos"].as_bool().unwrap_or(false);
            let hashes = BlockHashes { known, salt: i as u64 };
            let work = Request { prompt_tokens, max_output_tokens, ignore_eos, hashes, ..Request::default() };
            coming.push((request["arrival_step"].as_u64().unwrap_or(0), text(&request["id"]), work));
        }
        coming.sort_by_key(|&(step, ..)| step);
        coming.reverse();
        let mut pass = Pass { events: KvEvents { enabled: true, ..KvEvents::default() }, ..Pass::default() };
        // The real tree reports a reset when it is made.
        pass.events.cleared();
        if !config.radix_cache {
            pass.events.clear();
        }
        Ok(Self {
            scheduler: Scheduler::new(config),
            open: coming.len(),
            coming,
            names: HashMap::new(),
            hashes: Names::default(),
            pass,
            totals: Totals::default(),
        })
    }

    fn step(&mut self, step: u64) -> Map<String, Value> {
        let mut line = Map::new();
        line.insert("step".to_owned(), json!(step));
        let mut added = Vec::new();
        while self.coming.last().is_some_and(|&(arrival, ..)| arrival <= step) {
            let (_, name, request) = self.coming.pop().expect("there is one");
            let id = self.scheduler.submit(request);
            self.names.insert(id, name.clone());
            added.push(json!(name));
        }
        line.insert("add".to_owned(), json!(added));
        self.scheduler.schedule(&mut self.pass);
        line.insert("queue".to_owned(), self.all(self.scheduler.queue()));
        self.decision(&mut line);
        line.insert("retracted".to_owned(), self.all(self.pass.preempted.iter().copied()));
        self.scheduler.complete(&mut self.pass);
        self.outcome(&mut line);
        self.pass.clear();
        line
    }

    fn idle(&mut self) {
        self.scheduler.schedule(&mut self.pass);
        self.scheduler.complete(&mut self.pass);
        self.pass.clear();
    }

    fn decision(&mut self, line: &mut Map<String, Value>) {
        let (mode, batch) = match self.scheduler.mode() {
            Mode::Idle => ("none", None),
            Mode::Prefill => {
                line.insert("chunked".to_owned(), self.scheduler.chunked().map_or(Value::Null, |id| self.name(id)));
                let batch = self.scheduler.prefill_batch();
                let batch: Vec<Value> = batch.map(|(id, before, now)| json!([self.name(id), before, now])).collect();
                self.totals.prefill_steps += 1;
                ("prefill", Some(json!(batch)))
            }
            Mode::Decode => {
                self.totals.decode_steps += 1;
                ("decode", Some(self.all(self.scheduler.decode_requests().iter().copied())))
            }
        };
        line.insert("mode".to_owned(), json!(mode));
        if let Some(batch) = batch {
            line.insert("batch".to_owned(), batch);
        }
    }

    fn outcome(&mut self, line: &mut Map<String, Value>) {
        let scheduler = &self.scheduler;
        line.insert("fin".to_owned(), self.all(self.pass.finished.iter().copied()));
        line.insert("full".to_owned(), json!(scheduler.is_full()));
        let ratio = (scheduler.new_token_ratio() * 1e6).round() / 1e6;
        line.insert("ratio".to_owned(), json!(ratio));
        line.insert("avail".to_owned(), json!(scheduler.available_tokens()));
        line.insert("evictable".to_owned(), json!(scheduler.evictable_tokens()));
        line.insert("protected".to_owned(), json!(scheduler.protected_tokens()));
        line.insert("ev".to_owned(), json!(self.hashes.log(&self.pass.events)));
        self.totals.prefill_tokens += self.pass.prefill.new_tokens;
        self.totals.hit_tokens += self
            .pass
            .admitted
            .iter()
            .filter(|entry| !entry.resumed)
            .map(|entry| u64::from(entry.cached_tokens))
            .sum::<u64>();
        self.totals.retractions += self.pass.preempted.len() as u64;
        self.totals.finished += self.pass.finished.len() as u64;
        self.open -= self.pass.finished.len();
    }

    fn end(&self) -> Value {
        let totals = &self.totals;
        json!({
            "end": true,
            "totals": {
                "prefill_tokens": totals.prefill_tokens,
                "hit_tokens": totals.hit_tokens,
                "retractions": totals.retractions,
                "aborts": 0,
                "finished": totals.finished,
                "prefill_steps": totals.prefill_steps,
                "decode_steps": totals.decode_steps,
            },
            "open": self.open,
        })
    }

    fn name(&self, id: RequestId) -> Value {
        json!(self.names[&id])
    }

    fn all(&self, ids: impl Iterator<Item = RequestId>) -> Value {
        Value::Array(ids.map(|id| self.name(id)).collect())
    }
}

fn config(engine: &Value, page_size: u32) -> Config {
    Config {
        page_size,
        capacity_tokens: engine["capacity"].as_u64().expect("a capacity"),
        radix_cache: engine["radix_cache"].as_bool().unwrap_or(true),
        policy: match engine["policy"].as_str().unwrap_or("fcfs") {
            "fcfs" => QueuePolicy::Fcfs,
            "lpm" => QueuePolicy::Lpm,
            "dfs-weight" => QueuePolicy::DfsWeight,
            other => panic!("unknown policy {other}"),
        },
        max_running_requests: number(&engine["max_running_requests"]),
        max_prefill_tokens: number(&engine["max_prefill_tokens"]).expect("a prefill budget"),
        chunked_prefill_size: number(&engine["chunked_prefill_size"]),
        schedule_conservativeness: engine["schedule_conservativeness"].as_f64().unwrap_or(1.0),
        ..Config::default()
    }
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().map(|number| number as u32)
}

fn text(value: &Value) -> String {
    value.as_str().expect("a name").to_owned()
}
