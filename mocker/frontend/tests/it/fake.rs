//! Workers that do what a test tells them, on the real planes.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dynosim_wire::card::{DisaggregatedEndpoint, ModelCard, ModelFiles, WorkerType};
use dynosim_wire::discovery::{Discovery, EndpointRecord, Key, MemStore, ModelRecord, Record};
use dynosim_wire::protocol::{CompletionUsage, EngineOutput, FinishReason, PreprocessedRequest, PromptTokensDetails};
use dynosim_wire::request::{Call, RequestServer};
use dynosim_wire::response::ResponseSink;
use dynosim_wire::{DiscoveryConfig, EndpointId, EventPlane, RequestPlane, Runtime};
use tokio::sync::Semaphore;

use crate::client::DEADLINE;

/// What a worker does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Conduct {
    /// Gives all tokens.
    Serve,
    /// Gives that many tokens, then the connection breaks.
    BreakAfter(u32),
    /// Gives one token, then one per permit.
    Step(Arc<Semaphore>),
    /// Gives all tokens if the request has no meeting or one at that port, else nothing.
    ServeAt(u16),
    /// Takes the request and gives nothing.
    Silent,
    /// Says that it failed.
    Fail(&'static str),
    /// As a prefill worker: one token with parameters for decode.
    Prefill,
}

/// What a worker has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) requests: Mutex<Vec<PreprocessedRequest>>,
    pub(crate) ids: Mutex<Vec<String>>,
    pub(crate) cancelled: AtomicUsize,
}

impl Seen {
    pub(crate) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    pub(crate) fn last(&self) -> PreprocessedRequest {
        self.requests.lock().unwrap().last().cloned().expect("a request")
    }
}

/// A worker.
pub(crate) struct Fake {
    pub(crate) seen: Arc<Seen>,
    pub(crate) endpoint: EndpointId,
    pub(crate) id: u64,
    pub(crate) server: RequestServer,
    pub(crate) discovery: Discovery,
    pub(crate) keys: Vec<Key>,
}

pub(crate) fn runtime(store: &MemStore) -> Runtime {
    runtime_at(DiscoveryConfig::Mem(store.clone()))
}

pub(crate) fn runtime_at(discovery: DiscoveryConfig) -> Runtime {
    Runtime {
        discovery,
        request_plane: RequestPlane::Tcp,
        event_plane: EventPlane::Zmq,
        host: Some(std::net::Ipv4Addr::LOCALHOST.into()),
        port: 0,
        event_host: None,
        handoff_host: None,
    }
}

/// A card of model `m` for a part of the graph, as the published workers write it.
pub(crate) fn card(kind: WorkerType) -> ModelCard {
    let mut card = ModelFiles::open("some/model").unwrap().card("m", "some/model", None);
    let (needs, model_type) = match kind {
        WorkerType::Aggregated => (vec![vec![]], "Chat | Completions"),
        WorkerType::Prefill => (vec![vec![WorkerType::Decode]], ""),
        WorkerType::Decode => (vec![vec![WorkerType::Prefill]], "Chat | Completions"),
    };
    card.worker_type = Some(kind);
    card.needs = needs;
    model_type.clone_into(&mut card.model_type);
    card.kv_cache_block_size = 64;
    card
}

pub(crate) fn prefill_card(bootstrap_port: u16) -> ModelCard {
    let mut card = card(WorkerType::Prefill);
    card.runtime_config.disaggregated_endpoint = Some(DisaggregatedEndpoint {
        bootstrap_host: Some("127.0.0.1".to_owned()),
        bootstrap_port: Some(bootstrap_port),
    });
    card
}

impl Fake {
    pub(crate) async fn start(store: &MemStore, card: ModelCard, conduct: Conduct) -> Self {
        Self::start_in("dynamo", &runtime(store), card, conduct).await
    }

    pub(crate) async fn start_in(namespace: &str, runtime: &Runtime, card: ModelCard, conduct: Conduct) -> Self {
        let discovery = Discovery::connect(&runtime.discovery).await.unwrap();
        let server = RequestServer::start(runtime).await.unwrap();
        let component = if card.worker_type == Some(WorkerType::Prefill) { "prefill" } else { "backend" };
        let endpoint = EndpointId::new(namespace, component, "generate");
        let (id, seen) = (discovery.instance_id(), Arc::new(Seen::default()));
        let handler = {
            let seen = Arc::clone(&seen);
            move |call: Call| {
                tokio::spawn(serve(call, conduct.clone(), Arc::clone(&seen)));
            }
        };
        let record = server.serve(&endpoint, id, Arc::new(handler)).await.unwrap();
        let mut fake = Self { seen, endpoint, id, server, discovery, keys: Vec::new() };
        fake.register(record, card).await;
        fake
    }

    /// Puts its two records into discovery.
    pub(crate) async fn register(&mut self, record: EndpointRecord, card: ModelCard) {
        let EndpointId { namespace, component, name } = self.endpoint.clone();
        let model = ModelRecord {
            namespace,
            component,
            endpoint: name,
            instance_id: self.id,
            card_json: card,
            model_suffix: None,
        };
        for record in [Record::Endpoint(record), Record::Model(Box::new(model))] {
            self.keys.push(self.discovery.put(&record).await.unwrap());
        }
    }

    /// Refuses requests but stays in discovery.
    pub(crate) async fn refuse(&self) {
        self.server.remove(&self.endpoint, self.id).await;
    }

    /// Closes its port but stays in discovery.
    pub(crate) async fn vanish(&self) {
        self.server.close().await;
    }

    /// Leaves discovery; what runs goes on.
    pub(crate) async fn leave(&mut self) {
        for key in self.keys.drain(..) {
            self.discovery.remove(&key).await.unwrap();
        }
    }
}

/// The token at a place of the whole sequence: whoever goes on with a sequence makes the same.
pub(crate) fn token_at(place: usize) -> u32 {
    1000 + (place as u32 * 7) % 900
}

async fn serve(call: Call, conduct: Conduct, seen: Arc<Seen>) {
    let request: PreprocessedRequest = call.decode().unwrap();
    let (max, start) = (request.stop_conditions.max_tokens.unwrap(), request.token_ids.len());
    let port = request.bootstrap_info.as_ref().map(|meeting| meeting.bootstrap_port);
    seen.requests.lock().unwrap().push(request);
    seen.ids.lock().unwrap().push(call.id.clone());
    let mut sink = call.responder.open().await.unwrap();
    let usage = CompletionUsage {
        prompt_tokens: start as u32,
        completion_tokens: max,
        total_tokens: start as u32 + max,
        prompt_tokens_details: Some(PromptTokensDetails { cached_tokens: Some(2) }),
        completion_tokens_details: None,
    };
    match conduct {
        Conduct::Serve => give(&mut sink, start, max).await,
        Conduct::BreakAfter(count) => {
            give(&mut sink, start, count.min(max)).await;
            return drop(sink);
        }
        Conduct::Step(permits) => {
            for index in 0..max {
                tokio::select! {
                    permit = permits.acquire() => permit.unwrap().forget(),
                    _ = sink.cancelled() => {
                        seen.cancelled.fetch_add(1, SeqCst);
                        return;
                    }
                }
                give(&mut sink, start + index as usize, 1).await;
            }
        }
        Conduct::ServeAt(wanted) if port.is_none_or(|port| port == wanted) => give(&mut sink, start, max).await,
        Conduct::Silent | Conduct::ServeAt(_) => {
            sink.cancelled().await;
            seen.cancelled.fetch_add(1, SeqCst);
            return;
        }
        Conduct::Fail(reason) => {
            let finish_reason = Some(FinishReason::Error(reason.to_owned()));
            sink.push(&EngineOutput { finish_reason, ..EngineOutput::default() }).unwrap();
            sink.finish().await.unwrap();
            return;
        }
        Conduct::Prefill => {
            let params = Some("dummy".into());
            let output = EngineOutput {
                token_ids: vec![token_at(start)],
                disaggregated_params: params,
                ..EngineOutput::default()
            };
            sink.push(&output).unwrap();
        }
    }
    let finish_reason = Some(FinishReason::Length);
    let end = EngineOutput { finish_reason, completion_usage: Some(usage), ..EngineOutput::default() };
    sink.push(&end).unwrap();
    sink.flush().await.unwrap();
    sink.finish().await.unwrap();
}

async fn give(sink: &mut ResponseSink, start: usize, count: u32) {
    for index in 0..count as usize {
        sink.push_tokens(&[token_at(start + index)]);
    }
    // Nobody reads any more: the test has seen enough.
    let _ = sink.flush().await;
}

/// Waits until `done`.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, done: impl Fn() -> F) {
    let wait = async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, wait).await.is_ok(), "in vain: {what}");
}
