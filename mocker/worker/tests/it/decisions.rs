//! The decision log of a live worker is that of an offline engine that is asked the same at the same times.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use dynosim_engine::{BlockHashes, Engine, EngineConfig, Horizon, Nanos, Request, RequestId, Role, Ticket};
use dynosim_wire::protocol::{BootstrapInfo, PreprocessedRequest};
use dynosim_worker::{Worker, WorkerConfig};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::setup::{DEADLINE, Graph, request, until};

/// An engine that does what the lines of a log ask for, and keeps its own log of steps.
struct Offline {
    engine: Engine,
    /// Per rank and slot: the number of the request in it.
    slots: Vec<Vec<Option<u64>>>,
    /// Where requests are, those included whose KV is held.
    tickets: BTreeMap<u64, Ticket>,
    steps: Vec<Value>,
}

impl Offline {
    /// The steps of an engine with these settings.
    fn run(config: &EngineConfig, lines: &[Value]) -> Vec<Value> {
        let slots = vec![Vec::new(); config.dp_size as usize];
        let mut run = Self { engine: Engine::new(config.clone()), slots, tickets: BTreeMap::new(), steps: Vec::new() };
        let mut commands = lines.iter().filter(|line| line["at"].is_u64()).peekable();
        loop {
            let command = commands.peek().map(|line| Nanos(number(line, "at")));
            let Some(now) = command.into_iter().chain(run.engine.busy_until()).min() else { return run.steps };
            let mut changed = false;
            if run.engine.busy_until() == Some(now) {
                run.end_step();
                changed = true;
            }
            while let Some(line) = commands.next_if(|line| number(line, "at") <= now.0) {
                run.obey(now, line);
                changed = true;
            }
            if changed && run.engine.busy_until().is_none() {
                run.engine.start(now, Horizon::Pass);
            }
        }
    }

    fn obey(&mut self, now: Nanos, line: &Value) {
        if line["arrived"].is_u64() {
            return self.submit(now, line);
        }
        let known = ["aborted", "activated", "released"].into_iter().find(|name| line[*name].is_u64());
        let what = known.unwrap_or_else(|| panic!("nothing known is asked for: {line}"));
        let serial = number(line, what);
        let ticket = self.tickets[&serial];
        match what {
            "aborted" => {
                self.engine.abort(now, ticket);
                self.leave(ticket);
                self.tickets.remove(&serial);
            }
            "activated" => self.engine.activate(now, ticket),
            _ => {
                self.engine.release(now, ticket);
                self.tickets.remove(&serial);
            }
        }
    }

    fn submit(&mut self, now: Nanos, line: &Value) {
        let known = line["blocks"].as_array().expect("hashes").iter().filter_map(Value::as_u64).collect();
        let request = Request {
            prompt_tokens: number(line, "prompt_tokens") as u32,
            max_output_tokens: number(line, "output_tokens") as u32,
            priority: line["priority"].as_i64().expect("a priority") as i32,
            ignore_eos: line["ignore_eos"].as_bool().expect("true or false"),
            hashes: BlockHashes { known, salt: number(line, "salt") },
        };
        let rank = line["rank"].as_u64().map(|rank| rank as u32);
        let ticket = match line["prompt"].as_str() {
            Some("here") => self.engine.submit_local(now, rank, request),
            Some("by_role") => self.engine.submit(now, rank, request),
            other => panic!("who computes the prompt: {other:?}"),
        };
        let slots = &mut self.slots[ticket.rank as usize];
        slots.resize(slots.len().max(ticket.request.index() + 1), None);
        slots[ticket.request.index()] = Some(number(line, "arrived"));
        self.tickets.insert(number(line, "arrived"), ticket);
    }

    fn leave(&mut self, Ticket { rank, request }: Ticket) -> Option<u64> {
        self.slots[rank as usize][request.index()].take()
    }

    fn end_step(&mut self) {
        let step = self.engine.finish().clone();
        for (rank, pass) in (0..).zip(&step.ranks) {
            if pass.is_idle() && pass.reserved.is_empty() {
                continue;
            }
            // Who was aborted in the middle of the step has no number any more.
            let slots = &self.slots[rank as usize];
            let of = |id: RequestId| slots.get(id.index()).copied().flatten();
            let numbers = |ids: &[RequestId]| ids.iter().filter_map(|&id| of(id)).collect::<Vec<_>>();
            self.steps.push(json!({
                "start": step.start.0,
                "ends": step.ends.iter().map(|end| end.0).collect::<Vec<_>>(),
                "rank": rank,
                "prefill": [pass.prefill.requests, pass.prefill.prefix_tokens, pass.prefill.new_tokens],
                "decode": [pass.decode.requests, pass.decode.kv_tokens],
                "admitted":
                    pass.admitted.iter().filter_map(|a| Some((of(a.request)?, a.cached_tokens))).collect::<Vec<_>>(),
                "preempted": numbers(&pass.preempted),
                "reserved": numbers(&pass.reserved),
                "emitted": pass.emitted.iter().filter_map(|e| Some((of(e.request)?, e.tokens))).collect::<Vec<_>>(),
                "finished": numbers(&pass.finished),
            }));
            for &request in &pass.finished {
                let serial = self.leave(Ticket { rank, request });
                if let Some(serial) = serial.filter(|_| self.engine.role() != Role::Prefill) {
                    self.tickets.remove(&serial);
                }
            }
        }
    }
}

fn number(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {line}"))
}

/// What a log holds.
struct Log(Vec<Value>);

impl Log {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a log");
        Self(text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
    }

    /// Every step is what an offline engine does.
    fn check(&self, config: &EngineConfig, what: &str) {
        let live: Vec<_> = self.0.iter().filter(|line| line["start"].is_u64()).cloned().collect();
        assert!(live.len() > 5, "{what}: {} steps", live.len());
        let offline = Offline::run(config, &self.0);
        for (number, (live, offline)) in live.iter().zip(&offline).enumerate() {
            assert_eq!(live, offline, "{what}: step {number}");
        }
        assert_eq!(live.len(), offline.len(), "{what}");
    }

    /// Lines that have a request's number under this name.
    fn told(&self, name: &str) -> usize {
        self.0.iter().filter(|line| line[name].is_u64()).count()
    }

    /// Requests in the lists of this name, over all steps.
    fn listed(&self, name: &str) -> usize {
        self.0.iter().filter_map(|line| line[name].as_array()).map(Vec::len).sum()
    }

    /// Requests whose blocks were reserved only after at least one step that began after they had come.
    fn waited_for_blocks(&self) -> usize {
        let (mut waiting, mut waited) = (BTreeMap::new(), 0);
        for line in &self.0 {
            if line["prompt"] == "by_role" {
                waiting.insert(number(line, "arrived"), number(line, "at"));
            }
            for serial in line["reserved"].as_array().into_iter().flatten().filter_map(Value::as_u64) {
                waiting.remove(&serial);
            }
            if let Some(start) = line["start"].as_u64() {
                waited += waiting.extract_if(.., |_, arrival| *arrival < start).count();
            }
        }
        waited
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_worker_decides_as_an_offline_engine_with_the_same_arrivals() {
    for engine in [
        r#"{"block_size":16,"num_gpu_blocks":40,"max_num_batched_tokens":128,"speedup_ratio":20}"#,
        r#"{"engine_type":"sglang","block_size":16,"num_gpu_blocks":60,"speedup_ratio":20}"#,
    ] {
        let graph = Graph::new().await;
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = graph.config(engine);
        let path = folder.path().join("decisions");
        config.decision_log = Some(path.clone());
        let settings = config.engine.clone();
        let worker = graph.worker(config).await;
        let asked = (0..12u32).map(|number| {
            let (graph, worker) = (&graph, &worker);
            async move {
                tokio::time::sleep(Duration::from_millis(u64::from(number) * 2)).await;
                let ask = request((0..60).chain(number % 3 * 100..number % 3 * 100 + 90), 10 + number * 3);
                graph.ask(worker, &ask).await.expect("an answer").tokens.len()
            }
        });
        let counts = join_all(asked).await;
        assert_eq!(counts, (0..12).map(|number| 10 + number * 3).collect::<Vec<usize>>());
        worker.drain(DEADLINE).await;
        Log::read(&path).check(&settings, engine);
    }
}

/// A prefill and a decode worker that log.
struct Pair {
    graph: Graph,
    prefill: Worker,
    decode: Worker,
    port: u16,
}

/// Whose client stays how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// To the end.
    Enough,
    /// Until both workers have begun to answer.
    None,
    /// Until the first token.
    OneToken,
}

impl Pair {
    /// What a frontend does: prefill is called first, decode once that has begun to answer. What comes back is how many
    /// tokens the client saw.
    async fn serve(&self, number: u32, mut ask: PreprocessedRequest, patience: Patience) -> usize {
        let id = uuid::Uuid::from_u128(u128::from(number) + 1);
        ask.bootstrap_info = Some(BootstrapInfo {
            bootstrap_host: "127.0.0.1".to_owned(),
            bootstrap_port: self.port,
            bootstrap_room: u64::from(number),
            handoff_id: Some(uuid::Uuid::from_u128(u128::from(number) + 1_000_000)),
        });
        let id = id.to_string();
        let mut source = self.graph.call(&self.prefill, &id, &ask).await.expect("an answer");
        let mut destination = self.graph.call(&self.decode, &id, &ask).await.expect("an answer");
        let tokens = async {
            let enough = |seen: usize| match patience {
                Patience::Enough => false,
                Patience::None => true,
                Patience::OneToken => seen > 0,
            };
            while !enough(destination.answer.tokens.len()) && destination.more().await {}
            destination.answer.tokens.len()
        };
        let computed = async { while patience != Patience::None && source.more().await {} };
        tokio::join!(tokens, computed).0
    }

    /// A prompt that goes to the decode worker alone.
    async fn serve_alone(&self, number: u32, ask: &PreprocessedRequest) -> usize {
        let id = uuid::Uuid::from_u128(u128::from(number) + 1).to_string();
        let mut answering = self.graph.call(&self.decode, &id, ask).await.expect("an answer");
        while answering.more().await {}
        answering.answer.tokens.len()
    }

    /// Many requests with shared prefixes at once.
    async fn serve_many(&self) {
        let asked = (0..40u32).map(|number| async move {
            tokio::time::sleep(Duration::from_millis(u64::from(number) * 3)).await;
            let prompt = (0..60).chain(number % 5 * 100..number % 5 * 100 + 40 + number * 2);
            let output = 20 + number;
            let (tokens, expected) = match number % 8 {
                3 => (self.serve_alone(number, &request(prompt, output)).await, output),
                // Long enough to be there when their clients go.
                5 => (self.serve(number, request(prompt, 300), Patience::OneToken).await.min(1), 1),
                6 => (self.serve(number, request(prompt, 300), Patience::None).await, 0),
                _ => (self.serve(number, request(prompt, output), Patience::Enough).await, output),
            };
            assert_eq!(tokens, expected as usize, "request {number}");
        });
        join_all(asked).await;
        until("both have let go", || self.prefill.requests() + self.decode.requests() == 0).await;
        // Its end is the end of the last step.
        assert_eq!(self.serve(1000, request(0..100, 5), Patience::Enough).await, 5);
        until("both have let go", || self.prefill.requests() + self.decode.requests() == 0).await;
    }
}

/// Runs a pair with small pools, and compares both logs with offline engines.
async fn check_pair(engine: &str, mode: &str, ranks: u32) -> [Log; 2] {
    let graph = Graph::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let port = dynosim_peers::free_port();
    let config = |role: &str, more: &str| {
        let args = format!(
            r#"{{{engine},"block_size":16,"num_gpu_blocks":48,"dp_size":{ranks},"worker_type":"{role}","speedup_ratio":4{more}}}"#
        );
        WorkerConfig { decision_log: Some(folder.path().join(role)), ..graph.config(&args) }
    };
    let link = format!(
        r#","bootstrap_port":{port},"kv_bytes_per_token":1000,"kv_transfer_bandwidth":0.05,"kv_transfer_timing_mode":"{mode}""#
    );
    let configs = [config("prefill", &link), config("decode", "")];
    let settings = configs.each_ref().map(|config| config.engine.clone());
    let [prefill, decode] = configs;
    let (prefill, decode) = (graph.worker(prefill).await, graph.worker(decode).await);
    let pair = Pair { graph, prefill, decode, port };
    pair.serve_many().await;
    pair.prefill.drain(DEADLINE).await;
    pair.decode.drain(DEADLINE).await;
    let logs = ["prefill", "decode"].map(|role| Log::read(&folder.path().join(role)));
    for (log, settings) in logs.iter().zip(&settings) {
        log.check(settings, &format!("{engine} {mode} {:?}", settings.role));
    }
    logs
}

const VLLM: &str = r#""engine_type":"vllm","max_num_batched_tokens":128"#;
const SGLANG: &str = r#""engine_type":"sglang","sglang":{"schedule_conservativeness":0.1}"#;

#[tokio::test(flavor = "multi_thread")]
async fn prefill_and_decode_workers_decide_as_offline_engines_that_are_asked_the_same() {
    for engine in [VLLM, SGLANG] {
        for mode in ["full_prompt", "destination_missing"] {
            let [prefill, decode] = Box::pin(check_pair(engine, mode, 1)).await;
            let what = format!("{engine} {mode}");
            // 25 of 40 requests and the last one end as they should.
            assert!(prefill.told("released") >= 26, "{what}: {}", prefill.told("released"));
            assert!(decode.told("activated") >= 26, "{what}: {}", decode.told("activated"));
            assert!(prefill.told("aborted") + decode.told("aborted") > 0, "{what}: nobody was aborted");
            assert!(decode.listed("preempted") > 0, "{what}: nobody was preempted");
            assert!(decode.waited_for_blocks() > 0, "{what}: nobody waited for blocks");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_of_prefill_and_decode_workers_decide_as_those_of_offline_engines() {
    for engine in [VLLM, SGLANG] {
        let [prefill, decode] = Box::pin(check_pair(engine, "full_prompt", 2)).await;
        let of_rank =
            |log: &Log, rank: u64| log.0.iter().filter(|line| line["start"].is_u64() && line["rank"] == rank).count();
        for log in [&prefill, &decode] {
            assert!(of_rank(log, 0) > 0 && of_rank(log, 1) > 0);
        }
    }
}
