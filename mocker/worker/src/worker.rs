//! One worker: its engine, its endpoints, and its place in the serving graph.

mod publish;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use dynosim_engine::args::EngineType;
use dynosim_engine::{Nanos, Role};
use dynosim_wire::EndpointId;
use dynosim_wire::bootstrap::EngineType as Peer;
use dynosim_wire::discovery::{Discovery, DiscoveryError, ModelRecord, Record};
use dynosim_wire::event::EventError;
use dynosim_wire::request::{RequestServer, ServerError};
use dynosim_wire::runtime::listen_and_advertise;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::WorkerConfig;
use crate::driver::Driver;
use crate::handoff::{HandoffError, HandoffListener, Terms};
use crate::report::{DecisionLog, WorkerReport};
use crate::serve::{EventTokens, Generate, Handoffs, Serving, Sharing};
use crate::system::Readiness;
use crate::tokens::Vocabulary;
use publish::Publishers;

/// A worker that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The store.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The request plane.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The event plane.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The port of handoffs, or an engine that has none.
    #[error(transparent)]
    Handoff(#[from] HandoffError),
    /// The engine's thread.
    #[error("the engine's thread: {0}")]
    Thread(std::io::Error),
    /// The decision log.
    #[error("decision log {path}: {source}")]
    DecisionLog {
        /// Where.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It was stopped before it was ready.
    #[error("stopped before it was ready")]
    Stopped,
}

/// A worker that runs. Dropped without [`Worker::drain`], it breaks off its answers, and discovery finds out by itself.
#[derive(Debug)]
pub struct Worker {
    config: WorkerConfig,
    discovery: Discovery,
    server: RequestServer,
    serving: Arc<Serving>,
    driver: Driver,
    /// Endpoints beside the main one.
    recoveries: Vec<EndpointId>,
    registering: Option<JoinHandle<Result<(), WorkerError>>>,
    leave: CancellationToken,
}

impl Worker {
    /// Starts the engine and everything that others will need, then registers in the background once the simulated
    /// start-up is over ([`Worker::ready`]).
    pub async fn start(config: WorkerConfig) -> Result<Self, WorkerError> {
        let discovery = Discovery::connect(&config.runtime.discovery).await?;
        let server = match &config.server {
            Some(server) => server.clone(),
            None => RequestServer::start(&config.runtime).await?,
        };
        let worker_id = discovery.instance_id();
        let name = format!("{worker_id:x}");
        config.system.count_uptime(&name);
        config.system.set(&config.endpoint.name, worker_id, Readiness::NotReady);
        let publishers = Publishers::start(&config, worker_id).await?;
        let report = WorkerReport {
            worker_id,
            caches: publishers.cache_reports(&config, worker_id),
            loads: publishers.load_reports(worker_id),
            passes: publishers.pass_reports(worker_id),
            metrics: config.system.metrics().engine(
                &config.endpoint,
                &name,
                &config.model_name,
                config.args.dp_size,
                config.args.num_gpu_blocks,
            ),
            decisions: decision_log(&config)?,
            cache_trace: config.cache_trace,
        };
        let driver = Driver::start("engine", config.engine.clone(), report).map_err(WorkerError::Thread)?;
        let handoffs = handoffs(&config)?;
        let serving = Arc::new(serving(&config, &driver, &name, handoffs));
        let leave = CancellationToken::new();
        let recoveries = publishers.recovery_endpoints(&config);
        let mut worker = Self { config, discovery, server, serving, driver, recoveries, registering: None, leave };
        worker.registering = Some(tokio::spawn(worker.registration(publishers)));
        Ok(worker)
    }

    /// Waits until the worker can be found.
    pub async fn ready(&mut self) -> Result<(), WorkerError> {
        match self.registering.take() {
            None => Ok(()),
            Some(registering) => registering.await.unwrap_or(Err(WorkerError::Stopped)),
        }
    }

    /// Its instance id.
    pub fn id(&self) -> u64 {
        self.discovery.instance_id()
    }

    /// The endpoint that it serves.
    pub fn endpoint(&self) -> &EndpointId {
        &self.config.endpoint
    }

    /// Requests that it works on.
    pub fn requests(&self) -> usize {
        self.driver.handle().requests()
    }

    /// Records go in an order that makes a frontend route only to what can serve: first who hears and asks the worker's
    /// cache, then the endpoint, last the model that makes it a target.
    fn registration(&self, publishers: Publishers) -> impl Future<Output = Result<(), WorkerError>> + Send + 'static {
        let config = self.config.clone();
        let (discovery, server) = (self.discovery.clone(), self.server.clone());
        let handler = Arc::new(Generate(self.serving.clone()));
        let (leave, recoveries) = (self.leave.clone(), self.recoveries.clone());
        let source = match &self.serving.handoffs {
            Handoffs::Source(listener) => Some(listener.endpoint()),
            Handoffs::None | Handoffs::Destination(_) => None,
        };
        let register = async move {
            tokio::time::sleep(startup(&config)).await;
            let worker_id = discovery.instance_id();
            let mut records = publishers.serve(&config, worker_id, &server).await?;
            records.push(Record::Endpoint(server.serve(&config.endpoint, worker_id, handler).await?));
            let EndpointId { namespace, component, name: endpoint } = config.endpoint.clone();
            let card_json = crate::card::card(&config, source.as_ref());
            let model =
                ModelRecord { namespace, component, endpoint, instance_id: worker_id, card_json, model_suffix: None };
            records.push(Record::Model(Box::new(model)));
            discovery.put_all(&records).await?;
            for endpoint in recoveries.iter().chain([&config.endpoint]) {
                config.system.set(&endpoint.name, worker_id, Readiness::Ready);
            }
            tracing::info!(endpoint = %config.endpoint, worker = %format_args!("{worker_id:x}"), "worker is ready");
            Ok(())
        };
        async move {
            tokio::select! {
                () = leave.cancelled() => Err(WorkerError::Stopped),
                registered = register => registered,
            }
        }
    }

    /// Leaves discovery, refuses new requests, lets those that run end within `grace`, breaks off the rest, and stops.
    pub async fn drain(mut self, grace: Duration) {
        self.leave.cancel();
        let _ = self.ready().await;
        if let Err(error) = self.discovery.close().await {
            tracing::warn!(%error, "discovery could not be left");
        }
        self.config.system.remove(self.id());
        for endpoint in self.recoveries.iter().chain([&self.config.endpoint]) {
            self.server.remove(endpoint, self.id()).await;
        }
        self.serving.tasks.close();
        if tokio::time::timeout(grace, self.serving.tasks.wait()).await.is_err() {
            tracing::warn!(requests = self.requests(), "the grace time is over, requests are broken off");
        }
        self.serving.stop.cancel();
        self.serving.tasks.wait().await;
        // Joins the engine's thread.
        let _ = tokio::task::spawn_blocking(move || drop(self.driver)).await;
    }
}

fn startup(config: &WorkerConfig) -> Duration {
    Duration::from_nanos(Nanos::from_secs(config.args.startup_time.unwrap_or(0.0)).0)
}

fn decision_log(config: &WorkerConfig) -> Result<Option<DecisionLog>, WorkerError> {
    let Some(path) = &config.decision_log else { return Ok(None) };
    let fault = |source| WorkerError::DecisionLog { path: path.display().to_string(), source };
    DecisionLog::create(path).map(Some).map_err(fault)
}

/// A prefill worker with a port listens there; a decode worker is told by each request where to go.
fn handoffs(config: &WorkerConfig) -> Result<Handoffs, WorkerError> {
    let engine = match config.engine_type() {
        EngineType::Vllm => Peer::Vllm,
        EngineType::Sglang => Peer::Sglang,
        EngineType::Trtllm => Peer::Trtllm,
    };
    let terms = || {
        let session = Duration::from_millis(config.args.handoff_session_timeout_ms);
        Terms::new(engine, config.transfer()).map(|terms| Terms { session, ..terms })
    };
    Ok(match (config.role(), config.args.bootstrap_port) {
        (Role::Prefill, Some(port)) => {
            let (host, advertised) = listen_and_advertise(config.runtime.handoff_host, config.runtime.host);
            Handoffs::Source(HandoffListener::bind(host, port, terms()?)?.advertised_at(advertised))
        }
        (Role::Decode, _) if engine != Peer::Trtllm => Handoffs::Destination(terms()?),
        _ => Handoffs::None,
    })
}

fn serving(config: &WorkerConfig, driver: &Driver, name: &str, handoffs: Handoffs) -> Serving {
    let model = &config.model;
    let caching = config.args.enable_prefix_caching;
    let vllm_events = config.args.zmq_kv_events_port.is_some() && config.publishes_kv_events();
    Serving {
        engine: driver.handle().clone(),
        config: config.engine.clone(),
        block_size: config.args.block_size,
        max_model_len: config.args.max_model_len,
        vocabulary: Arc::new(Vocabulary::new(model.vocab_size, &model.eos_token_ids)),
        reasoning: config.reasoning(),
        replayed: config.replayed.clone(),
        transfer: config.transfer(),
        handoffs,
        turn: AtomicU32::new(0),
        sharing: if caching { Sharing::ByContent } else { Sharing::None },
        event_tokens: if vllm_events { EventTokens::Kept } else { EventTokens::Dropped },
        metrics: config.system.metrics().endpoint(&config.endpoint, name),
        salts: AtomicU64::new(0),
        tasks: TaskTracker::new(),
        stop: CancellationToken::new(),
    }
}
