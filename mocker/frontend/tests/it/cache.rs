//! The KV cache of a worker, as it publishes it.

use std::sync::{Arc, Mutex};

use dynosim_wire::EndpointId;
use dynosim_wire::Runtime;
use dynosim_wire::discovery::{Record, Scope, SourceMetadata, SourceRecord, WorkerRef};
use dynosim_wire::event::{
    BlockData, CacheEvent, EventData, EventPublisher, KV_EVENTS, RecoveryLog, RecoveryRequest, RouterEvent,
    StoredBlocks,
};
use dynosim_wire::hash::block_hashes;
use dynosim_wire::request::Call;

use crate::fake::Fake;

/// Tokens of a block, as in the cards of these tests.
pub(crate) const BLOCK: usize = 64;

/// What one rank publishes, and what it tells those who missed something.
pub(crate) struct Cache {
    worker: u64,
    rank: u32,
    publisher: EventPublisher,
    log: Arc<Mutex<RecoveryLog>>,
    next: u64,
}

impl Cache {
    /// Of rank 0 of a worker.
    pub(crate) async fn of(fake: &mut Fake, runtime: &Runtime) -> Self {
        Self::of_rank(fake, runtime, 0).await
    }

    pub(crate) async fn of_rank(fake: &mut Fake, runtime: &Runtime, rank: u32) -> Self {
        let scope = Scope::Endpoint { endpoint: fake.endpoint.clone() };
        let publisher = EventPublisher::start(runtime, scope.clone(), KV_EVENTS).await.unwrap();
        let publisher_id = publisher.publisher_id();
        let log = Arc::new(Mutex::new(RecoveryLog::new(fake.id, rank)));
        let name = format!("worker_kv_query_source_{publisher_id:x}");
        let endpoint = EndpointId::new(&fake.endpoint.namespace, &fake.endpoint.component, &name);
        let answers = Arc::clone(&log);
        let handler = move |call: Call| {
            let request: RecoveryRequest = call.decode().unwrap();
            let response = answers.lock().unwrap().answer(&request);
            tokio::spawn(async move {
                let mut sink = call.responder.open().await.unwrap();
                sink.push_plain(&response).unwrap();
                sink.finish().await.unwrap();
            });
        };
        let target = fake.server.serve(&endpoint, fake.id, Arc::new(handler)).await.unwrap();
        let metadata = SourceMetadata {
            kv_state_endpoint: fake.endpoint.clone(),
            worker: WorkerRef { worker_id: fake.id, dp_rank: rank },
            publisher_id,
            recovery_target: Some(target.clone()),
        };
        let source = SourceRecord { scope, topic: KV_EVENTS.to_owned(), publisher_id, metadata };
        let records = [Record::Endpoint(target), Record::EventChannel(publisher.record()), Record::EventSource(source)];
        for record in records {
            fake.keys.push(fake.discovery.put(&record).await.unwrap());
        }
        Self { worker: fake.id, rank, publisher, log, next: 1 }
    }

    /// All full blocks of a prompt are cached; this is remembered and told.
    pub(crate) fn store(&mut self, tokens: &[u32]) {
        let event = self.remember(tokens);
        self.publisher.publish(&[RouterEvent::new(self.worker, event)]).unwrap();
    }

    /// As [`Self::store`], but nobody is told.
    pub(crate) fn remember(&mut self, tokens: &[u32]) -> CacheEvent {
        let hashes = block_hashes(tokens, BLOCK).into_iter();
        let blocks =
            hashes.map(|hash| BlockData { block_hash: hash.sequence, tokens_hash: hash.local, mm_extra_info: None });
        let stored = StoredBlocks { parent_hash: None, start_position: Some(0), blocks: blocks.collect() };
        self.record(EventData::Stored(stored))
    }

    /// All full blocks of a prompt are gone.
    pub(crate) fn remove(&mut self, tokens: &[u32]) {
        let block_hashes = block_hashes(tokens, BLOCK).into_iter().map(|hash| hash.sequence).collect();
        let event = self.record(EventData::Removed { block_hashes });
        self.publisher.publish(&[RouterEvent::new(self.worker, event)]).unwrap();
    }

    fn record(&mut self, data: EventData) -> CacheEvent {
        let event = CacheEvent { event_id: self.next, data, dp_rank: self.rank };
        self.next += 1;
        self.log.lock().unwrap().record(event.clone());
        event
    }
}
