//! A worker in this process, with real planes and a store in memory.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use dynosim_engine::EngineArgs;
use dynosim_wire::card::ModelFiles;
use dynosim_wire::discovery::{Bucket, Change, Discovery, EndpointRecord, MemStore, Record};
use dynosim_wire::protocol::{Annotated, EngineOutput, FinishReason, PreprocessedRequest, StopConditions};
use dynosim_wire::request::{CallError, RequestClient};
use dynosim_wire::response::ResponseStream;
use dynosim_wire::{DiscoveryConfig, EndpointId, EventPlane, RequestPlane, Runtime};
use dynosim_worker::{CacheTrace, Metrics, Several, System, Worker, WorkerConfig, engine_config, live_timing};
use tokio::time::timeout;

/// Nothing in these tests takes that long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
pub(crate) const BLOCK: u32 = 16;

pub(crate) struct Graph {
    pub(crate) runtime: Runtime,
    pub(crate) store: Discovery,
    pub(crate) client: RequestClient,
}

impl Graph {
    pub(crate) async fn new() -> Self {
        let runtime = Runtime {
            discovery: DiscoveryConfig::Mem(MemStore::default()),
            request_plane: RequestPlane::Tcp,
            event_plane: EventPlane::Zmq,
            host: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            port: 0,
            event_host: None,
            handoff_host: None,
        };
        let store = Discovery::connect(&runtime.discovery).await.expect("a store");
        let client = RequestClient::start(&runtime).await.expect("a client");
        Self { runtime, store, client }
    }

    /// Settings of a worker whose engine has these arguments.
    pub(crate) fn config(&self, args: &str) -> WorkerConfig {
        let args = EngineArgs::from_json(args).expect("good arguments");
        let timing = live_timing(&args, &mut |path| std::fs::read(path)).expect("good timing");
        let several = Several { workers: false, ranks: args.dp_size > 1 };
        let metrics = Metrics::new(args.engine_type, several).expect("fresh metrics");
        WorkerConfig {
            runtime: self.runtime.clone(),
            server: None,
            endpoint: EndpointId::new("dynamo", "backend", "generate"),
            engine: engine_config(&args, 0, timing, CacheTrace::Off),
            args,
            model: Arc::new(ModelFiles::open("no/such/model").expect("the built-in model")),
            model_name: "test".to_owned(),
            source_path: "no/such/model".to_owned(),
            replayed: None,
            system: Arc::new(System::closed(metrics)),
            decision_log: None,
            cache_trace: CacheTrace::Off,
        }
    }

    /// A worker that is ready.
    pub(crate) async fn worker(&self, config: WorkerConfig) -> Worker {
        let mut worker = Worker::start(config).await.expect("a worker");
        timeout(DEADLINE, worker.ready()).await.expect("in time").expect("ready");
        worker
    }

    /// All records of a bucket.
    pub(crate) async fn records(&self, bucket: Bucket) -> Vec<Record> {
        let mut watch = self.store.watch(bucket, "");
        let mut records = Vec::new();
        loop {
            match timeout(DEADLINE, watch.next()).await.expect("in time") {
                Some(Change::Put(_, record)) => records.push(*record),
                Some(Change::Removed(_)) => {}
                Some(Change::Synced) | None => return records,
            }
        }
    }

    /// Where an endpoint of a worker is.
    pub(crate) async fn endpoint(&self, worker: u64, name: &str) -> EndpointRecord {
        let records = self.records(Bucket::Instances).await.into_iter();
        let mut found = records.filter_map(|record| match record {
            Record::Endpoint(record) if record.instance_id == worker && record.endpoint == name => Some(record),
            _ => None,
        });
        found.next().expect("the endpoint is registered")
    }

    /// The whole answer.
    pub(crate) async fn ask(&self, worker: &Worker, request: &PreprocessedRequest) -> Result<Answer, CallError> {
        // The handoff wants a UUID, as frontends give.
        let id = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
        let mut answering = self.call(worker, id, request).await?;
        while answering.more().await {}
        Ok(answering.answer)
    }

    /// An answer that has begun.
    pub(crate) async fn call(
        &self,
        worker: &Worker,
        id: &str,
        request: &PreprocessedRequest,
    ) -> Result<Answering, CallError> {
        let target = self.endpoint(worker.id(), "generate").await;
        let stream = timeout(DEADLINE, self.client.call(&target, id, request)).await.expect("in time")?;
        Ok(Answering { stream, answer: Answer::default() })
    }
}

/// An answer as it comes. Dropped, the worker is told that nobody wants it any more.
pub(crate) struct Answering {
    stream: ResponseStream<EngineOutput>,
    pub(crate) answer: Answer,
}

impl Answering {
    /// Waits for more of it; false after the end.
    pub(crate) async fn more(&mut self) -> bool {
        let next = timeout(DEADLINE, self.stream.next()).await.expect("in time").expect("not broken");
        let Some(Annotated { data, .. }) = next else { return false };
        if let Some(output) = data {
            self.answer.tokens.extend(&output.token_ids);
            self.answer.outputs.push(output);
        }
        true
    }
}

/// What a worker answered.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) tokens: Vec<u32>,
    pub(crate) outputs: Vec<EngineOutput>,
}

impl Answer {
    pub(crate) fn reason(&self) -> Option<&FinishReason> {
        self.outputs.last()?.finish_reason.as_ref()
    }

    pub(crate) fn cached_tokens(&self) -> Option<u32> {
        let usage = self.outputs.last()?.completion_usage.as_ref()?;
        usage.prompt_tokens_details.as_ref()?.cached_tokens
    }
}

/// A request for `max_tokens` tokens after this prompt.
pub(crate) fn request(prompt: impl IntoIterator<Item = u32>, max_tokens: u32) -> PreprocessedRequest {
    PreprocessedRequest {
        model: "test".to_owned(),
        token_ids: prompt.into_iter().collect(),
        stop_conditions: StopConditions { max_tokens: Some(max_tokens), ..StopConditions::default() },
        ..PreprocessedRequest::default()
    }
}

/// Polls until it holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let polled = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(timeout(DEADLINE, polled).await.is_ok(), "{what}");
}

/// One sample of `/metrics`.
pub(crate) fn metric(system: &System, line: &str) -> Option<f64> {
    let text = String::from_utf8(system.metrics().to_text().expect("metrics")).expect("text");
    text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok())
}
