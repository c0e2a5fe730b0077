//! The workers of one model in one namespace.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use dynosim_wire::card::WorkerType;

use super::books::Card;
use super::worker::Worker;
use crate::kv::{Kv, KvPools};
use crate::metrics::ModelMetrics;
use crate::text::TextModel;

/// Workers of one part, and whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) workers: Box<[Arc<Worker>]>,
    pub(crate) turn: AtomicUsize,
}

impl Pool {
    fn of(workers: Vec<Arc<Worker>>, turn: usize) -> Self {
        Self { workers: workers.into(), turn: AtomicUsize::new(turn) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }
}

/// Who can be asked at the moment.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    /// Workers that do the whole work.
    pub(crate) aggregated: Pool,
    /// Workers that decode; only those whose needs are met.
    pub(crate) decode: Pool,
    /// Workers that prefill.
    pub(crate) prefill: Pool,
    /// Why nobody can be asked, if so.
    pub(crate) missing: Option<String>,
}

impl Pools {
    /// Those that give output to clients.
    pub(crate) fn generating(&self) -> usize {
        self.aggregated.workers.len() + self.decode.workers.len()
    }

    /// Sorts workers into pools. Turns go on where they were in `before`.
    pub(crate) fn sort(workers: &[Arc<Worker>], needs_met: impl Fn(&Worker) -> bool, before: &Self) -> Self {
        let of = |kind| workers.iter().filter(move |worker| worker.kind == kind).cloned();
        let decode: Vec<_> = of(WorkerType::Decode).filter(|worker| needs_met(worker)).collect();
        let unmet = workers.iter().any(|worker| worker.kind == WorkerType::Decode) && decode.is_empty();
        let turn = |pool: &Pool| pool.turn.load(Relaxed);
        let mut pools = Self {
            aggregated: Pool::of(of(WorkerType::Aggregated).collect(), turn(&before.aggregated)),
            decode: Pool::of(decode, turn(&before.decode)),
            prefill: Pool::of(of(WorkerType::Prefill).collect(), turn(&before.prefill)),
            missing: None,
        };
        if pools.generating() == 0 {
            pools.missing = Some(match (workers.is_empty(), unmet) {
                (true, _) => "it has no workers".to_owned(),
                (false, true) => "it has decode workers but no prefill workers".to_owned(),
                (false, false) => "it has prefill workers but no decode workers".to_owned(),
            });
        }
        pools
    }
}

/// The workers of one model in one namespace: prefill and decode meet only within it.
#[derive(Debug)]
pub(crate) struct Group {
    /// The model's name, as clients know it.
    pub(crate) name: Arc<str>,
    /// Checksum that all its cards share.
    pub(crate) identity: String,
    /// Times that a request may move on, as its card says.
    pub(crate) migration_limit: u32,
    /// Tokens; 0: not limited.
    pub(crate) context_length: u32,
    pub(crate) text: Arc<TextModel>,
    pub(crate) metrics: Arc<ModelMetrics>,
    /// With KV-aware routing: what its routers share, and they.
    pub(crate) kv: Option<(Arc<Kv>, KvPools)>,
    pools: RwLock<Arc<Pools>>,
}

impl Group {
    /// A group without workers yet.
    pub(crate) fn new(
        name: Arc<str>,
        card: &Card,
        text: Arc<TextModel>,
        metrics: Arc<ModelMetrics>,
        kv: Option<(Arc<Kv>, KvPools)>,
    ) -> Self {
        let pools = Pools { missing: Some("it has no workers".to_owned()), ..Pools::default() };
        Self {
            name,
            identity: card.identity.clone(),
            migration_limit: card.said.migration_limit,
            context_length: card.said.context_length,
            text,
            metrics,
            kv,
            pools: RwLock::new(Arc::new(pools)),
        }
    }

    /// Who can be asked at the moment.
    pub(crate) fn pools(&self) -> Arc<Pools> {
        Arc::clone(&self.pools.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Others can be asked from now on.
    pub(crate) fn set_pools(&self, pools: Pools) {
        if let Some((kv, routers)) = &self.kv {
            kv.settle(routers, &pools);
        }
        *self.pools.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pools);
    }
}
