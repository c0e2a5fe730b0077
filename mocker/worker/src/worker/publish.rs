//! The event sockets of a worker and their records.

use std::sync::Arc;

use dynosim_wire::EndpointId;
use dynosim_wire::discovery::{EndpointRecord, Record, Scope, SourceMetadata, SourceRecord, WorkerRef};
use dynosim_wire::event::{EventPublisher, FORWARD_PASS_METRICS, KV_EVENTS, KV_METRICS, VllmPublisher};
use dynosim_wire::request::RequestServer;

use super::WorkerError;
use crate::config::WorkerConfig;
use crate::recovery::{AnswerRecovery, Recovery};
use crate::report::{CacheReport, LoadReport, PassReport};

/// Prefix of the endpoint that answers who missed events of a publisher.
const RECOVERY_ENDPOINT: &str = "worker_kv_query_source_";

/// What a rank publishes about its cache.
#[derive(Debug)]
struct Cache {
    publisher: EventPublisher,
    recovery: Option<Recovery>,
    vllm: Option<VllmPublisher>,
}

/// All sockets of a worker.
#[derive(Debug)]
pub(super) struct Publishers {
    /// Per rank; empty if the worker publishes no KV events.
    caches: Vec<Cache>,
    loads: EventPublisher,
    passes: EventPublisher,
    ranks: u32,
}

impl Publishers {
    pub(super) async fn start(config: &WorkerConfig, worker_id: u64) -> Result<Self, WorkerError> {
        let ranks = config.args.dp_size;
        let publisher =
            async |topic: &str| EventPublisher::start(&config.runtime, scope(&config.endpoint), topic).await;
        let mut caches = Vec::new();
        for rank in (0..ranks).filter(|_| config.publishes_kv_events()) {
            caches.push(Cache {
                publisher: publisher(KV_EVENTS).await?,
                recovery: config.answers_recovery().then(|| Recovery::new(worker_id, rank)),
                vllm: vllm(config, rank).await?,
            });
        }
        Ok(Self { caches, loads: publisher(KV_METRICS).await?, passes: publisher(FORWARD_PASS_METRICS).await?, ranks })
    }

    pub(super) fn cache_reports(&self, config: &WorkerConfig, worker_id: u64) -> Vec<CacheReport> {
        let report = |(rank, cache): (u32, &Cache)| {
            let report = CacheReport::new(worker_id, rank, config.args.block_size)
                .publish_on(cache.publisher.clone(), cache.recovery.clone());
            match &cache.vllm {
                Some(vllm) => report.publish_as_vllm(vllm.clone()),
                None => report,
            }
        };
        (0..).zip(&self.caches).map(report).collect()
    }

    pub(super) fn load_reports(&self, worker_id: u64) -> Vec<LoadReport> {
        (0..self.ranks).map(|rank| LoadReport::new(worker_id, rank, self.loads.clone())).collect()
    }

    pub(super) fn pass_reports(&self, worker_id: u64) -> Vec<PassReport> {
        (0..self.ranks).map(|rank| PassReport::new(worker_id, rank, self.passes.clone())).collect()
    }

    /// The endpoints that answer who missed events.
    pub(super) fn recovery_endpoints(&self, config: &WorkerConfig) -> Vec<EndpointId> {
        let answering = self.caches.iter().filter(|cache| cache.recovery.is_some());
        answering.map(|cache| cache.recovery_endpoint(config)).collect()
    }

    /// Serves the recovery endpoints; what comes back makes all of it known, in the order in which others need it.
    pub(super) async fn serve(
        &self,
        config: &WorkerConfig,
        worker_id: u64,
        server: &RequestServer,
    ) -> Result<Vec<Record>, WorkerError> {
        let channel = |publisher: &EventPublisher| Record::EventChannel(publisher.record());
        let mut records = vec![channel(&self.loads), channel(&self.passes)];
        for (dp_rank, cache) in (0..).zip(&self.caches) {
            let publisher_id = cache.publisher.publisher_id();
            let recovery_target = cache.serve_recovery(config, worker_id, server).await?;
            records.extend(recovery_target.clone().map(Record::Endpoint));
            records.push(channel(&cache.publisher));
            let metadata = SourceMetadata {
                kv_state_endpoint: config.endpoint.clone(),
                worker: WorkerRef { worker_id, dp_rank },
                publisher_id,
                recovery_target,
            };
            let topic = KV_EVENTS.to_owned();
            let source = SourceRecord { scope: scope(&config.endpoint), topic, publisher_id, metadata };
            records.push(Record::EventSource(source));
        }
        Ok(records)
    }
}

impl Cache {
    fn recovery_endpoint(&self, config: &WorkerConfig) -> EndpointId {
        let EndpointId { namespace, component, .. } = &config.endpoint;
        EndpointId::new(namespace, component, format!("{RECOVERY_ENDPOINT}{:x}", self.publisher.publisher_id()))
    }

    async fn serve_recovery(
        &self,
        config: &WorkerConfig,
        worker_id: u64,
        server: &RequestServer,
    ) -> Result<Option<EndpointRecord>, WorkerError> {
        let Some(recovery) = &self.recovery else { return Ok(None) };
        let endpoint = self.recovery_endpoint(config);
        let metrics = config.system.metrics().endpoint(&endpoint, &format!("{worker_id:x}"));
        let handler = Arc::new(AnswerRecovery::new(recovery.clone(), metrics));
        Ok(Some(server.serve(&endpoint, worker_id, handler).await?))
    }
}

fn scope(endpoint: &EndpointId) -> Scope {
    Scope::Endpoint { endpoint: endpoint.clone() }
}

/// The publisher in vLLM's own form, if there is a port for it: each rank has the port plus its number.
async fn vllm(config: &WorkerConfig, rank: u32) -> Result<Option<VllmPublisher>, WorkerError> {
    let Some(port) = config.args.zmq_kv_events_port else { return Ok(None) };
    let of_rank = |port: u16| port.saturating_add(rank as u16);
    let replay = config.args.zmq_replay_port.map(of_rank);
    Ok(Some(VllmPublisher::start(config.runtime.host, of_rank(port), replay, rank).await?))
}
