//! A worker as the router sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use dynosim_wire::card::{ModelCard, WorkerType};
use dynosim_wire::discovery::EndpointRecord;

/// A worker that did not take a request is passed over for that long, unless discovery tells of it again.
const COOL_DOWN: Duration = Duration::from_secs(1);

/// Where decode workers fetch KV from a prefill worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bootstrap {
    pub(crate) host: String,
    /// Port of rank 0.
    pub(crate) port: u16,
}

/// What a worker says of its engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Engine {
    /// Number of its first data-parallel rank.
    pub(crate) start_rank: u32,
    /// Data-parallel ranks, at least 1.
    pub(crate) ranks: u32,
    /// Token budget of a pass.
    pub(crate) max_num_batched_tokens: Option<u64>,
    /// KV blocks of a rank.
    pub(crate) total_kv_blocks: Option<u64>,
}

impl Engine {
    fn of(card: &ModelCard) -> Self {
        let said = &card.runtime_config;
        Self {
            start_rank: said.data_parallel_start_rank,
            ranks: said.data_parallel_size.max(1),
            max_num_batched_tokens: said.max_num_batched_tokens,
            total_kv_blocks: said.total_kv_blocks,
        }
    }
}

/// A worker of a model.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) endpoint: EndpointRecord,
    pub(crate) kind: WorkerType,
    pub(crate) engine: Engine,
    /// Where its KV can be fetched, if it says so.
    pub(crate) bootstrap: Option<Bootstrap>,
    /// Parts that must be there too: alternatives, each a set.
    pub(crate) needs: Vec<Vec<WorkerType>>,
    /// Requests of this frontend at it.
    in_flight: AtomicU32,
    /// Clock of `cool_down_ms`.
    born: Instant,
    /// Passed over until then, milliseconds after `born`.
    cool_down_ms: AtomicU64,
}

impl Worker {
    /// A worker with what its records say.
    pub(crate) fn new(endpoint: &EndpointRecord, card: &ModelCard) -> Self {
        let published = card.runtime_config.disaggregated_endpoint.as_ref();
        let bootstrap = published.and_then(|at| {
            Some(Bootstrap { host: at.bootstrap_host.clone()?, port: at.bootstrap_port.filter(|port| *port > 0)? })
        });
        let kind = card.worker_type.unwrap_or_default();
        Self {
            endpoint: endpoint.clone(),
            kind,
            engine: Engine::of(card),
            bootstrap,
            needs: card.needs.clone(),
            in_flight: AtomicU32::new(0),
            born: dynosim_wire::time::now(),
            cool_down_ms: AtomicU64::new(0),
        }
    }

    /// Its instance id.
    pub(crate) fn id(&self) -> u64 {
        self.endpoint.instance_id
    }

    /// Its card lets it serve without a prefill worker.
    pub(crate) fn can_serve_alone(&self) -> bool {
        needs_met(&self.needs, &[self.kind])
    }

    /// Requests of this frontend at it.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// It did not take a request: others are asked first for a while.
    pub(crate) fn cool_down(&self) {
        let until = self.born.elapsed() + COOL_DOWN;
        self.cool_down_ms.store(until.as_millis() as u64, Relaxed);
    }

    /// It did not take a request lately.
    pub(crate) fn is_cooling(&self) -> bool {
        let until = self.cool_down_ms.load(Relaxed);
        until > 0 && self.born.elapsed() < Duration::from_millis(until)
    }
}

/// One of the alternatives of `needs` is there; no alternatives need nothing.
pub(crate) fn needs_met(needs: &[Vec<WorkerType>], there: &[WorkerType]) -> bool {
    needs.is_empty() || needs.iter().any(|all| all.iter().all(|kind| there.contains(kind)))
}

/// A request at a worker; counts until dropped.
#[derive(Debug)]
pub(crate) struct Lease(Arc<Worker>);

impl Lease {
    /// One more request at `worker`.
    pub(crate) fn new(worker: &Arc<Worker>) -> Self {
        worker.in_flight.fetch_add(1, Relaxed);
        Self(Arc::clone(worker))
    }

    /// The worker.
    pub(crate) fn worker(&self) -> &Arc<Worker> {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}
