//! The published release as a peer: its mocker is understood, its frontend understands us.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dynosim_peers::{Process, free_port, release};
use dynosim_wire::card::{ModelFiles, builtin_files};
use dynosim_wire::discovery::{
    ChannelRecord, Discovery, EndpointRecord, ModelRecord, Record, SourceMetadata, SourceRecord, WorkerRef,
};
use dynosim_wire::event::{
    ACTIVE_SEQUENCES_EVENTS, BlockData, CacheEvent, EventData, EventPublisher, EventSubscriber, FORWARD_PASS_METRICS,
    ForwardPassMetrics, KV_EVENTS, KV_METRICS, KvMetrics, RecoveryLog, RecoveryRequest, RouterEvent, StoredBlocks,
};
use dynosim_wire::hash::block_hashes;
use dynosim_wire::protocol::{EngineOutput, FinishReason};
use dynosim_wire::request::{Call, RequestServer};
use dynosim_wire::{Codec, DiscoveryConfig, EndpointId, EventPlane, Runtime};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::{endpoint, runtime, scope};

/// Longer than the release takes to start, on a machine that has much else to do.
const DEADLINE: Duration = Duration::from_mins(2);
const BLOCK: usize = 16;

/// A frontend of the release, and what it needs.
struct Frontend {
    folder: tempfile::TempDir,
    python: std::path::PathBuf,
    port: u16,
    process: Option<Process>,
}

impl Frontend {
    fn find() -> Option<Self> {
        let python = release()?;
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in builtin_files() {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        Some(Self { folder, python, port: free_port(), process: None })
    }

    fn store(&self) -> String {
        self.folder.path().join("store").display().to_string()
    }

    fn run(&self, module: &str, args: &[&str]) -> Process {
        let planes = ["--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq"];
        let mut command = Process::of_release(&self.python, module);
        command.args(args).args(planes).env("DYN_FILE_KV", self.store());
        Process::start(&mut command, &self.folder.path().join(format!("{module}.log")))
    }

    fn start(&mut self) {
        let port = self.port.to_string();
        let args = ["--http-host", "127.0.0.1", "--http-port", &port, "--router-mode", "kv"];
        self.process = Some(self.run("dynamo.frontend", &args));
    }

    async fn http(&self, head: &str, body: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    }

    async fn until<T>(&self, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
        let asked = timeout(DEADLINE, async {
            loop {
                match ask().await {
                    Some(answer) => return answer,
                    None => sleep(Duration::from_millis(50)).await,
                }
            }
        });
        let Ok(answer) = asked.await else {
            panic!("not in time: {what}\n{}", self.process.as_ref().map(Process::log).unwrap_or_default())
        };
        answer
    }

    async fn model_is_listed(&self) {
        self.until("model", async || {
            self.http("GET /v1/models", "").await.filter(|answer| answer.contains("\"tiny\""))
        })
        .await;
    }

    /// Completes a prompt; how often its blocks were found where they went to is in the metrics.
    async fn complete(&self, prompt: &str, tokens: usize) -> Option<String> {
        let body = format!(r#"{{"model":"tiny","prompt":"{prompt}","max_tokens":{tokens}}}"#);
        self.http("POST /v1/completions", &body).await
    }

    async fn hit_rates(&self) -> f64 {
        let metrics = self.http("GET /metrics", "").await.unwrap();
        let sums = metrics.lines().filter(|line| line.starts_with("dynamo_component_router_kv_hit_rate_sum"));
        sums.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }
}

/// The event channels in a store.
fn channels(store: &str) -> BTreeMap<String, ChannelRecord> {
    let files = std::fs::read_dir(Path::new(store).join("v1/event_channels"));
    let records = files.into_iter().flatten().filter_map(|file| std::fs::read(file.unwrap().path()).ok());
    let channel = |bytes: Vec<u8>| match serde_json::from_slice(&bytes) {
        Ok(Record::EventChannel(channel)) => Some((channel.topic.clone(), channel)),
        _ => None,
    };
    records.filter_map(channel).collect()
}

/// Reads a payload; it must be written again as it was.
fn lossless<T: Serialize + DeserializeOwned>(payload: &[u8]) -> T {
    let value = Codec::MessagePack.decode::<T>(payload).unwrap();
    assert_eq!(Codec::MessagePack.encode(&value).unwrap(), payload);
    value
}

#[tokio::test]
async fn the_published_mocker_is_understood() {
    let Some(mut frontend) = Frontend::find() else { return };
    let model = frontend.folder.path().display().to_string();
    let args = ["--model-path", &model, "--model-name", "tiny", "--speedup-ratio", "100", "--block-size", "16"];
    let _mocker = frontend.run("dynamo.mocker", &[&args[..], &["--num-gpu-blocks-override", "12"]].concat());
    frontend.start();
    frontend.model_is_listed().await;
    let topics = [KV_EVENTS, KV_METRICS, FORWARD_PASS_METRICS, ACTIVE_SEQUENCES_EVENTS];
    let store = frontend.store();
    let known = frontend
        .until("channels", async || {
            Some(channels(&store)).filter(|known| topics.iter().all(|t| known.contains_key(*t)))
        })
        .await;
    let mut subscribers = Vec::new();
    for topic in topics {
        subscribers.push(EventSubscriber::connect(&runtime(EventPlane::Zmq), &known[topic]).await.unwrap());
    }
    let (mut prompts, mut seen) = (0..10_000u32, BTreeMap::<&str, u32>::new());
    frontend
        .until("events of all kinds", async || {
            // Once all of these were seen nothing more is asked: an idle engine says so once a second.
            if !["stored", "removed", "load", "pass", "other"].iter().all(|kind| seen.contains_key(kind)) {
                frontend.complete(&format!("{:064}", prompts.next()?), 20).await?;
            }
            for subscriber in &mut subscribers {
                while let Ok(Some(received)) = timeout(Duration::from_millis(20), subscriber.next()).await {
                    *seen.entry(check(&received.payload, received.publisher_id, &known)).or_default() += 1;
                }
            }
            (seen.len() == 6).then_some(())
        })
        .await;
}

/// What a payload is about.
fn check(payload: &[u8], publisher: u64, known: &BTreeMap<String, ChannelRecord>) -> &'static str {
    let topic = known.values().find(|channel| channel.instance_id == publisher).unwrap().topic.as_str();
    match topic {
        KV_EVENTS => {
            let events = lossless::<Vec<RouterEvent>>(payload);
            let removed = events.iter().any(|event| matches!(event.event.data, EventData::Removed { .. }));
            if removed { "removed" } else { "stored" }
        }
        KV_METRICS => {
            assert!(lossless::<KvMetrics>(payload).kv_used_blocks.is_some());
            "load"
        }
        FORWARD_PASS_METRICS => {
            let pass = lossless::<ForwardPassMetrics>(payload);
            assert_eq!(pass.version, 1);
            if pass.wall_time > 0.0 { "pass" } else { "idle" }
        }
        _ => "other",
    }
}

/// A worker of ours that answers whatever is asked with one token.
struct Worker {
    _server: RequestServer,
    discovery: Discovery,
    events: EventPublisher,
}

/// Blocks `from` on of a prompt of equal bytes.
fn stored(event_id: u64, byte: u8, blocks: std::ops::Range<usize>) -> CacheEvent {
    let hashes = block_hashes(&vec![u32::from(byte); blocks.end * BLOCK], BLOCK);
    let parent_hash = blocks.start.checked_sub(1).map(|parent| hashes[parent].sequence);
    let block = |hash: &dynosim_wire::hash::BlockHash| BlockData {
        block_hash: hash.sequence,
        tokens_hash: hash.local,
        mm_extra_info: None,
    };
    let blocks = hashes[blocks].iter().map(block).collect();
    CacheEvent {
        event_id,
        data: EventData::Stored(StoredBlocks { parent_hash, start_position: None, blocks }),
        dp_rank: 0,
    }
}

impl Worker {
    async fn start(runtime: &Runtime, history: impl IntoIterator<Item = CacheEvent>) -> Self {
        let discovery = Discovery::connect(&runtime.discovery).await.unwrap();
        let id = discovery.instance_id();
        let mut log = RecoveryLog::new(id, 0);
        history.into_iter().for_each(|event| log.record(event));
        let log = Mutex::new(log);
        let server = RequestServer::start(runtime).await.unwrap();
        let generate = server.serve(&endpoint(), id, Arc::new(generate)).await.unwrap();
        let events = EventPublisher::start(runtime, scope(), KV_EVENTS).await.unwrap();
        let publisher_id = events.publisher_id();
        let query = EndpointId::new("dynamo", "backend", format!("worker_kv_query_source_{publisher_id:x}"));
        let recover = move |call: Call| recover(call, &log);
        let recovery = server.serve(&query, id, Arc::new(recover)).await.unwrap();
        let worker = Self { _server: server, discovery, events };
        worker.register(generate, recovery).await;
        worker
    }

    async fn register(&self, generate: EndpointRecord, recovery: EndpointRecord) {
        let (id, publisher_id) = (self.discovery.instance_id(), self.events.publisher_id());
        let mut card = ModelFiles::open("tiny-built-in").unwrap().card("tiny", "tiny", None);
        card.kv_cache_block_size = BLOCK as u32;
        card.runtime_config.total_kv_blocks = Some(1000);
        card.runtime_config.enable_local_indexer = true;
        card.runtime_config.kv_event_publishing_enabled = true;
        let source = SourceMetadata {
            kv_state_endpoint: endpoint(),
            worker: WorkerRef { worker_id: id, dp_rank: 0 },
            publisher_id,
            recovery_target: Some(recovery.clone()),
        };
        let EndpointId { namespace, component, name } = endpoint();
        let model =
            ModelRecord { namespace, component, endpoint: name, instance_id: id, card_json: card, model_suffix: None };
        let records = [
            Record::Endpoint(generate),
            Record::Endpoint(recovery),
            Record::EventChannel(self.events.record()),
            Record::EventSource(SourceRecord {
                scope: scope(),
                topic: KV_EVENTS.to_owned(),
                publisher_id,
                metadata: source,
            }),
            Record::Model(Box::new(model)),
        ];
        for record in records {
            self.discovery.put(&record).await.unwrap();
        }
    }
}

fn generate(call: Call) {
    tokio::spawn(async move {
        let mut sink = call.responder.open().await.unwrap();
        let last = EngineOutput {
            token_ids: vec![1000],
            finish_reason: Some(FinishReason::Length),
            ..EngineOutput::default()
        };
        sink.push(&last).unwrap();
        sink.finish().await
    });
}

fn recover(call: Call, log: &Mutex<RecoveryLog>) {
    let answer = log.lock().unwrap().answer(&call.decode::<RecoveryRequest>().unwrap());
    tokio::spawn(async move {
        let mut sink = call.responder.open().await.unwrap();
        sink.push_plain(&answer).unwrap();
        sink.finish().await
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_frontend_applies_our_events_and_recovers_those_it_missed() {
    let Some(mut frontend) = Frontend::find() else { return };
    let file = DiscoveryConfig::File { root: frontend.store().into(), ttl: Duration::from_secs(10) };
    let runtime = Runtime { discovery: file, ..runtime(EventPlane::Zmq) };
    let EventData::Stored(gone) = stored(0, b'b', 2..3).data else { unreachable!() };
    let removed = EventData::Removed { block_hashes: vec![gone.blocks[0].block_hash] };
    // A block is gone again: what is dumped is not what was recorded.
    let history = [stored(1, b'a', 0..2), stored(2, b'b', 0..3), CacheEvent { event_id: 3, data: removed, dp_rank: 0 }];
    let worker = Worker::start(&runtime, history).await;
    frontend.start();
    frontend.model_is_listed().await;
    assert_eq!(worker.events.subscribers(), Some(1), "the release's ZeroMQ library has subscribed");
    let rate = async |prompt: char| {
        let before = frontend.hit_rates().await;
        frontend.complete(&prompt.to_string().repeat(4 * BLOCK), 1).await.unwrap();
        frontend.hit_rates().await - before
    };
    frontend.until("dump applied", async || (rate('a').await > 0.49).then_some(())).await;
    worker.events.publish(&[RouterEvent::new(worker.discovery.instance_id(), stored(4, b'a', 2..4))]).unwrap();
    frontend.until("event applied", async || (rate('a').await > 0.99).then_some(())).await;
    let (half, none) = (rate('b').await, rate('c').await);
    assert!((half - 0.5).abs() < 0.01 && none.abs() < 0.01, "{half} {none}");
}
