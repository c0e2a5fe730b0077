//! Scenarios of the prefix index alone.

use std::collections::BTreeSet;

use dynosim_engine::Nanos;
use dynosim_router::{Event, EventError, Router, RouterConfig, Target, Tier, WorkerSpec};
use serde_json::{Map, Value, json};

use crate::report::expect;
use crate::scenario::{number, numbers, target};

/// Ranks of a worker that scenarios use at most.
const RANKS: u32 = 8;

pub(crate) struct Replay {
    router: Router,
    workers: BTreeSet<u64>,
}

fn name(error: EventError) -> &'static str {
    match error {
        EventError::ParentNotFound => "parent_not_found",
        EventError::BlockNotFound => "block_not_found",
        EventError::InvalidSequence => "invalid_block_sequence",
        EventError::UnknownTarget => "unknown_target",
    }
}

impl Replay {
    pub(crate) fn new() -> Self {
        let router = Router::new(RouterConfig::default(), 16, 1).expect("defaults are valid");
        Self { router, workers: BTreeSet::new() }
    }

    pub(crate) fn step(&mut self, op: &Value, record: &Value) -> Result<(), String> {
        match op["op"].as_str().expect("a name") {
            "event" => self.event(op, record),
            "find" => expect("scores", &record["scores"], &self.find(&numbers(&op["tokens_hashes"]))),
            "dump" => expect("held", &sorted(&record["held"]), &self.dump()),
            "remove_worker" | "clear_worker" => {
                let worker = number(&op["worker"]);
                if self.workers.remove(&worker) {
                    self.router.remove_worker(Nanos::ZERO, worker).map_err(|error| error.to_string())?;
                }
                Ok(())
            }
            other => Err(format!("unknown operation {other}")),
        }
    }

    fn event(&mut self, op: &Value, record: &Value) -> Result<(), String> {
        let target = target(op);
        if self.workers.insert(target.worker) {
            let spec = WorkerSpec { ranks: RANKS, ..WorkerSpec::new(target.worker) };
            self.router.add_worker(Nanos::ZERO, spec);
        }
        let stored = &op["stored"];
        let (blocks, tokens) = (numbers(&stored["block_hashes"]), numbers(&stored["tokens_hashes"]));
        let removed = numbers(&op["removed"]);
        let event = if stored.is_object() {
            Event::Stored { parent: stored["parent_hash"].as_u64(), block_hashes: &blocks, tokens_hashes: &tokens }
        } else if op["removed"].is_array() {
            Event::Removed { block_hashes: &removed }
        } else {
            Event::Cleared
        };
        let error = self.router.apply(target, Tier::Device, event).err();
        expect("error", &record["error"], &json!(error.map(name)))
    }

    fn find(&mut self, tokens: &[u64]) -> Value {
        let mut found = Vec::new();
        self.router.overlap(Nanos::ZERO, tokens, &mut found);
        let found = found.into_iter().filter(|(_, matched)| matched.device > 0);
        found.map(|(target, matched)| (target.to_string(), json!(matched.device))).collect::<Map<_, _>>().into()
    }

    fn dump(&self) -> Value {
        let mut held = Map::new();
        for &worker in &self.workers {
            for rank in 0..RANKS {
                let target = Target { worker, rank };
                let blocks = self.router.held(target);
                if !blocks.is_empty() {
                    held.insert(target.to_string(), json!(blocks));
                }
            }
        }
        sorted(&held.into())
    }
}

/// Order in a list of blocks means nothing here.
fn sorted(held: &Value) -> Value {
    let mut held = held.clone();
    for blocks in held.as_object_mut().expect("ranks").values_mut() {
        blocks.as_array_mut().expect("blocks").sort_by_key(ToString::to_string);
    }
    held
}
