//! Scenarios of the whole router.

use std::collections::BTreeMap;

use dynosim_engine::Nanos;
use dynosim_router::{
    Arrival, Batches, Decision, Event, Extras, Lifecycle, Matched, PolicyConfig, Request, RouteError, Router,
    RouterConfig, Submitted, Target, Tier, WorkerSpec, hash, probabilities,
};
use serde_json::{Map, Value, json};

use crate::report::expect;
use crate::scenario::{Ask, number, number_or, numbers, target, text, texts, tokens};

/// Time between operations: more than nothing, and far below any time to live.
const STEP: Nanos = Nanos(20_000_000);

pub(crate) struct Replay {
    router: Router,
    block_size: u32,
    queueing: bool,
    temperature: f64,
    now: Nanos,
    ids: BTreeMap<String, u64>,
    batches: BTreeMap<Target, (Batches, i64)>,
    /// Of the choice just made.
    difference: Option<String>,
    /// Since the last record.
    admitted: Vec<Value>,
    rejected: Map<String, Value>,
}

fn error(error: RouteError) -> Value {
    json!({ "kind": error.kind(), "status": error.status() })
}

fn lifecycle(state: Lifecycle) -> Value {
    json!(if state == Lifecycle::Schedulable { "schedulable" } else { "incomplete" })
}

fn triple(matched: Matched) -> Value {
    json!([matched.device, matched.host, matched.disk])
}

impl Replay {
    pub(crate) fn new(scenario: &Value) -> Self {
        let mut keys = scenario["config"].as_object().cloned().unwrap_or_default();
        // The scenario's word for router_event_threads.
        keys.remove("event_threads");
        let policy = keys.remove("policy_config").map(|policy| PolicyConfig::from_json(&policy).expect("a policy"));
        let config = RouterConfig::from_json(&keys.into()).expect("a valid configuration");
        let temperature = config.router_temperature;
        let session_ttl = scenario["session_affinity_ttl_secs"].as_f64().map(Nanos::from_secs);
        let block_size = number(&scenario["block_size"]) as u32;
        let extras = Extras { policy, session_ttl, estimator: None };
        Self {
            router: Router::with(config, block_size, 7, extras).expect("a valid configuration"),
            block_size,
            queueing: scenario["queueing"] == true,
            temperature,
            now: Nanos::ZERO,
            ids: BTreeMap::new(),
            batches: BTreeMap::new(),
            difference: None,
            admitted: Vec::new(),
            rejected: Map::new(),
        }
    }

    fn id(&mut self, name: &Value) -> u64 {
        let next = self.ids.len() as u64;
        *self.ids.entry(text(name).to_owned()).or_insert(next)
    }

    pub(crate) fn step(&mut self, op: &Value, record: &Value) -> Result<(), String> {
        self.now += STEP;
        let outcome = match text(&op["op"]) {
            "overlap" => {
                let ask = Ask::new(op, self.block_size);
                return expect("matched", &record["matched"], &self.matched(&ask.blocks));
            }
            "potential_loads" => return self.potential_loads(op, record),
            "select" | "select_and_reserve" => self.choose(op, record),
            "select_tie" => return self.tie(op, record),
            "select_many" => return self.many(op, record),
            "hash" => return Self::hash(op, record),
            "sleep" => {
                self.now += Nanos(number(&op["ms"]) * 1_000_000);
                return Ok(());
            }
            "kv" => {
                self.events(op);
                let prompts = op["check"].as_array().into_iter().flatten();
                let asks = prompts.map(|prompt| Ask::new(&json!({ "prompt": prompt }), self.block_size));
                let asks: Vec<_> = asks.collect();
                let checks: Vec<_> = asks.iter().map(|ask| self.matched(&ask.blocks)).collect();
                if op["check"].is_array() {
                    expect("matched", &record["matched"], &checks.into())?;
                }
                Ok(())
            }
            other => self.change(other, op, record)?,
        };
        expect("error", &record["error"], &outcome.err().map_or(Value::Null, error))?;
        self.state(record)
    }

    /// Operations that answer little.
    fn change(&mut self, name: &str, op: &Value, record: &Value) -> Result<Result<(), RouteError>, String> {
        let now = self.now;
        Ok(match name {
            "add_worker" => {
                let spec = WorkerSpec {
                    worker: number(&op["worker"]),
                    start_rank: number_or(&op["dp_start"], 0) as u32,
                    ranks: number_or(&op["dp_size"], 1) as u32,
                    max_num_batched_tokens: op["max_num_batched_tokens"].as_u64(),
                    total_kv_blocks: op["total_kv_blocks"].as_u64(),
                    taints: texts(&op["taints"]),
                };
                let state = self.router.add_worker(now, spec);
                expect("lifecycle", &record["lifecycle"], &lifecycle(state))?;
                Ok(())
            }
            "patch_worker" => {
                let state = self.router.patch_taints(number(&op["worker"]), texts(&op["taints"]));
                if let Ok(state) = state {
                    expect("lifecycle", &record["lifecycle"], &lifecycle(state))?;
                }
                state.map(|_| ())
            }
            "remove_worker" => {
                let worker = number(&op["worker"]);
                self.batches.retain(|target, _| target.worker != worker);
                self.router.remove_worker(now, worker)
            }
            "prefill_complete" => {
                let id = self.id(&op["id"]);
                self.router.prefill_complete(now, id)
            }
            "free" => {
                let id = self.id(&op["id"]);
                self.router.free(now, id)
            }
            "add_output_block" => {
                let id = self.id(&op["id"]);
                self.router.add_output_block(id, op["decay_fraction"].as_f64())
            }
            "submit" => {
                let (id, ask) = (self.id(&op["id"]), Ask::new(op, self.block_size));
                match self.router.submit(now, id, &ask.request()) {
                    Ok(Submitted::Admitted(decision)) => self.admitted.push(admitted(&op["id"], &decision)),
                    Ok(Submitted::Waiting) => {}
                    Err(problem) => drop(self.rejected.insert(text(&op["id"]).to_owned(), error(problem))),
                }
                Ok(())
            }
            "reserve" => {
                let (id, ask) = (self.id(&op["id"]), Ask::new(op, self.block_size));
                let effective = op["effective_prefill_tokens"].as_u64().map(|tokens| tokens as u32);
                let outcome = self.router.reserve(now, id, target(op), &ask.request(), effective);
                if outcome.is_ok() {
                    expect("worker", &record["worker"], &json!(target(op).worker))?;
                    expect("rank", &record["rank"], &json!(target(op).rank))?;
                }
                outcome
            }
            "reserve_selected" => {
                let id = self.id(&op["id"]);
                let outcome = self.router.reserve_kept(now, id);
                if let Ok(decision) = outcome {
                    expect("worker", &record["worker"], &json!(decision.target.worker))?;
                    expect("rank", &record["rank"], &json!(decision.target.rank))?;
                }
                outcome.map(|_| ())
            }
            other => return Err(format!("unknown operation {other}")),
        })
    }

    fn matched(&mut self, blocks: &[u64]) -> Value {
        let mut found = Vec::new();
        self.router.overlap(self.now, blocks, &mut found);
        let named = found.into_iter().map(|(target, matched)| (target.to_string(), triple(matched)));
        named.collect::<Map<_, _>>().into()
    }

    fn potential_loads(&mut self, op: &Value, record: &Value) -> Result<(), String> {
        let (ask, mut loads) = (Ask::new(op, self.block_size), Vec::new());
        let outcome = self.router.potential_loads(self.now, &ask.request(), &mut loads);
        expect("error", &record["error"], &outcome.err().map_or(Value::Null, error))?;
        let named = loads
            .into_iter()
            .map(|(target, load)| (target.to_string(), json!([load.requests, load.blocks, load.prefill_tokens])));
        expect("potential", &record["potential"], &named.collect::<Map<_, _>>().into())
    }

    /// Selections, with or without a reservation.
    fn choose(&mut self, op: &Value, record: &Value) -> Result<(), RouteError> {
        let ask = Ask::new(op, self.block_size);
        let request = ask.request();
        let before = (self.matched(&ask.blocks), self.solo(&request));
        let id = op["id"].is_string().then(|| self.id(&op["id"]));
        let decision = match (id, op["op"] == "select") {
            (Some(id), true) => self.router.keep(self.now, id, &request),
            (None, true) => self.router.select(self.now, &request),
            (id, false) => self.router.select_and_reserve(self.now, id.expect("an id"), &request),
        }?;
        self.difference = self.compare(op, record, &decision, before).err();
        Ok(())
    }

    fn compare(
        &self,
        op: &Value,
        record: &Value,
        decision: &Decision,
        (matched, solo): (Value, Value),
    ) -> Result<(), String> {
        expect("worker", &record["worker"], &json!(decision.target.worker))?;
        expect("rank", &record["rank"], &json!(decision.target.rank))?;
        if record["cost"].is_number() {
            expect("cost", &record["cost"], &json!(decision.cost))?;
        }
        expect(
            "effective_prefill_tokens",
            &record["effective_prefill_tokens"],
            &json!(decision.effective_prefill_tokens),
        )?;
        expect(
            "potential_decode_blocks",
            &record["potential_decode_blocks"],
            &json!(decision.potential_decode_blocks),
        )?;
        expect("matched", &record["matched"], &matched)?;
        expect("solo", &record["solo"], &solo)?;
        if record["decode_busy"].is_boolean() {
            expect("decode_busy", &record["decode_busy"], &json!(decision.decode_busy))?;
        }
        if op["advisory"] == true && record["worker_load"].is_object() {
            let load = &record["worker_load"];
            expect("active_prefill_tokens", &load["active_prefill_tokens"], &json!(decision.active_prefill_tokens))?;
            expect("prefill_busy", &load["prefill_busy"], &json!(decision.prefill_busy))?;
        }
        expect("overlap", &record["overlap"], &self.overlap(decision.target.worker, &matched))
    }

    /// The overlap of a worker, in tokens.
    fn overlap(&self, worker: u64, matched: &Value) -> Value {
        let (mut best, mut ranks) = ([0; 3], Map::new());
        for (name, blocks) in matched.as_object().expect("ranks") {
            let (of, rank) = name.split_once('.').expect("worker.rank");
            if of != worker.to_string() {
                continue;
            }
            let blocks = numbers(blocks);
            for (upto, best) in best.iter_mut().enumerate() {
                *best = blocks[..=upto].iter().sum::<u64>().max(*best);
            }
            ranks.insert(rank.to_owned(), json!(blocks[0] * u64::from(self.block_size)));
        }
        let [gpu, cpu, disk] = best.map(|blocks| blocks * u64::from(self.block_size));
        json!({ "gpu": gpu, "cpu": cpu, "disk": disk, "longest": disk, "ranks": ranks })
    }

    /// Each candidate priced as if it were the only one, without preferred taints: as if the request was pinned to it.
    fn solo(&mut self, request: &Request<'_>) -> Value {
        if self.router.select(self.now, request).is_err() {
            return Value::Null;
        }
        let targets: Vec<_> = self.router.candidates().iter().map(|candidate| candidate.target).collect();
        let mut solo = Map::new();
        for target in targets {
            let pinned = Request { pinned: Some(target), ..*request };
            let decision = self.router.select(self.now, &pinned).expect("a candidate");
            let figures = json!([decision.cost, decision.effective_prefill_tokens, decision.potential_decode_blocks]);
            solo.insert(target.to_string(), figures);
        }
        solo.into()
    }

    fn tie(&mut self, op: &Value, record: &Value) -> Result<(), String> {
        let ask = Ask::new(op, self.block_size);
        let solo = self.solo(&ask.request());
        expect("solo", &record["solo"], &solo)?;
        let mut seen = BTreeMap::new();
        for _ in 0..400 {
            let decision = self.router.select(self.now, &ask.request()).map_err(|error| error.to_string())?;
            *seen.entry(decision.target.to_string()).or_insert(0) += 1;
        }
        expect("any_of", &record["any_of"], &json!(seen.keys().collect::<Vec<_>>()))?;
        let fair = 400 / seen.len();
        let even = seen.values().all(|&count: &usize| count > fair / 2 && count < fair * 3 / 2 + 1);
        if even { Ok(()) } else { Err(format!("uneven: {seen:?}")) }
    }

    fn many(&mut self, op: &Value, record: &Value) -> Result<(), String> {
        let ask = Ask::new(op, self.block_size);
        expect("solo", &record["solo"], &self.solo(&ask.request()))?;
        let draws = number(&op["draws"]);
        let mut seen = BTreeMap::new();
        for _ in 0..draws {
            let decision = self.router.select(self.now, &ask.request()).map_err(|error| error.to_string())?;
            *seen.entry(decision.target).or_insert(0.0) += 1.0;
        }
        let mut shares = Vec::new();
        probabilities(self.router.candidates(), self.temperature, &mut shares);
        let targets = self.router.candidates().iter().map(|candidate| candidate.target);
        let named = targets.clone().zip(&shares).map(|(target, share)| (target.to_string(), json!(share)));
        expect("probability", &record["probability"], &named.collect::<Map<_, _>>().into())?;
        for (target, share) in targets.zip(&shares) {
            let (count, mean) = (seen.get(&target).copied().unwrap_or(0.0), draws as f64 * share);
            let sigma = (mean * (1.0 - share)).sqrt();
            if (count - mean).abs() > 5.0 * sigma {
                return Err(format!("{target} was drawn {count} times of {draws}, expected {mean}"));
            }
        }
        Ok(())
    }

    fn hash(op: &Value, record: &Value) -> Result<(), String> {
        let space = hash::Space {
            lora_name: op["lora_name"].as_str().unwrap_or(""),
            cache_namespace: op["cache_namespace"].as_str().unwrap_or(""),
            eagle: op["is_eagle"] == true,
        };
        let objects: Vec<_> = op["mm_hashes"].as_array().into_iter().flatten().map(numbers).collect();
        let hashes = hash::tokens_hashes(&tokens(&op["prompt"]), number(&op["block_size"]) as usize, space, &objects);
        expect("tokens_hashes", &record["tokens_hashes"], &json!(hashes))
    }

    /// One batch of events, if its number is not old.
    fn events(&mut self, op: &Value) {
        let target = target(op);
        let (batches, next) = self.batches.entry(target).or_insert((Batches::default(), 0));
        let shift = op["seq_shift"].as_i64().unwrap_or(0);
        let number = *next + shift;
        if shift >= 0 {
            *next = number + 1;
        }
        // Numbers below the first one are old as well.
        if number < 0 || batches.arrive(number as u64) == Arrival::Old {
            return;
        }
        for event in op["events"].as_array().into_iter().flatten() {
            let tier = match event["tier"].as_str() {
                None | Some("device") => Tier::Device,
                Some("host") => Tier::Host,
                Some(_) => Tier::Disk,
            };
            let stored = &event["stored"];
            let (blocks, tokens) = (numbers(&stored["block_hashes"]), numbers(&stored["tokens_hashes"]));
            let removed = numbers(&event["removed"]);
            let change = if stored.is_object() {
                Event::Stored { parent: stored["parent_hash"].as_u64(), block_hashes: &blocks, tokens_hashes: &tokens }
            } else if event["removed"].is_array() {
                Event::Removed { block_hashes: &removed }
            } else {
                Event::Cleared
            };
            // What can't be applied is skipped.
            let _ = self.router.apply(target, tier, change);
        }
    }

    /// Loads and the queue after an operation.
    fn state(&mut self, record: &Value) -> Result<(), String> {
        if let Some(difference) = self.difference.take() {
            return Err(difference);
        }
        if record["loads"].is_object() {
            let mut loads = Vec::new();
            self.router.loads(self.now, &mut loads);
            let named = loads
                .into_iter()
                .map(|(target, load)| (target.to_string(), json!([load.requests, load.blocks, load.prefill_tokens])));
            expect("loads", &record["loads"], &named.collect::<Map<_, _>>().into())?;
        }
        if !self.queueing {
            return Ok(());
        }
        let left: Vec<_> = self.router.admissions().collect();
        for admission in left {
            let name = self.ids.iter().find(|(_, id)| **id == admission.id).expect("a known id").0.clone();
            match admission.outcome {
                Ok(decision) => self.admitted.push(admitted(&json!(name), &decision)),
                Err(problem) => drop(self.rejected.insert(name, error(problem))),
            }
        }
        let waiting = self.router.waiting();
        expect("admitted", &record["admitted"], &std::mem::take(&mut self.admitted).into())?;
        expect("pending", &record["pending"], &json!([waiting.requests, waiting.tokens]))?;
        let rejected: Value = std::mem::take(&mut self.rejected).into();
        let want = if record["rejected"].is_object() { record["rejected"].clone() } else { json!({}) };
        expect("rejected", &want, &rejected)
    }
}

fn admitted(id: &Value, decision: &Decision) -> Value {
    json!([id, decision.target.worker, decision.target.rank, decision.effective_prefill_tokens])
}
