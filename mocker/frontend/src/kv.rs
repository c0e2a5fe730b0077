//! Routing by what workers have cached and what they have to do.
//!
//! ```text
//!   discovery ──► feeds: one per publisher ──► KV events, recovery ──┐
//!   registry ───► workers of a pool ─────────────────────────────────┼──► KvRouter: the router behind a lock
//!   dispatch ───► route: admitted, or waits ──► Booking ─────────────┘         │
//!                                                  └ dropped: freed            └──► metrics, recent choices
//! ```
//!
//! Invariants:
//! - a router's lock is held for one call into it, never while anything is awaited;
//! - a request is booked as long as its [`Booking`] lives: whoever gives it up, wherever that is, frees it;
//! - a worker's blocks are known from the moment that it is in a pool: what was published before is asked for.

mod book;
mod explain;
mod feed;
mod pool;
mod source;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use dynosim_router::{ConfigError, Extras, PolicyConfig, Router, RouterConfig};
use dynosim_wire::Runtime;
use dynosim_wire::discovery::Discovery;
use dynosim_wire::request::RequestClient;

pub(crate) use book::{Booking, Placed, Wish};
pub(crate) use explain::{Choice, Recent};
pub(crate) use pool::KvRouter;

use crate::config::{KvConfig, NamespaceScope};
use crate::metrics::{KvMetrics, Phase};
use crate::models::Pools;
use feed::Feeds;

/// All that routers of one frontend share.
#[derive(Debug)]
pub(crate) struct Kv {
    config: KvConfig,
    seed: u64,
    /// None without KV events.
    feeds: Option<Feeds>,
    metrics: Arc<KvMetrics>,
    /// Choices that can be asked for.
    pub(crate) recent: Recent,
    /// Number of the next router.
    routers: AtomicU64,
}

impl Kv {
    /// Checks settings and follows the publishers of KV events from now on.
    pub(crate) fn start(
        config: &KvConfig,
        seed: u64,
        metrics: Arc<KvMetrics>,
        client: &RequestClient,
        runtime: &Runtime,
        (discovery, scope): (&Discovery, &NamespaceScope),
    ) -> Result<Self, ConfigError> {
        make(&config.router, config.policy.clone(), 1, seed)?;
        let feeds =
            config.router.use_kv_events.then(|| Feeds::start(discovery, scope, client, runtime, Arc::clone(&metrics)));
        Ok(Self {
            config: config.clone(),
            seed,
            feeds,
            metrics,
            recent: Recent::default(),
            routers: AtomicU64::default(),
        })
    }

    /// Routers of a model whose KV blocks have `block_size` tokens, at least 1.
    pub(crate) fn pools(&self, block_size: u32) -> Result<KvPools, ConfigError> {
        let router = |config: RouterConfig, phase| {
            let router = make(&config, self.config.policy.clone(), block_size, self.seed)?;
            let number = self.routers.fetch_add(1, Relaxed);
            Ok::<_, ConfigError>(Arc::new(KvRouter::new(router, number, block_size, self.metrics.pool(phase))))
        };
        let config = &self.config.router;
        Ok(KvPools {
            aggregated: router(config.clone(), Phase::Aggregated)?,
            prefill: router(config.prefill_pool(), Phase::Prefill)?,
            decode: router(config.decode_pool(), Phase::Decode)?,
        })
    }

    /// Others are in the pools from now on.
    pub(crate) fn settle(&self, routers: &KvPools, pools: &Pools) {
        let all = [
            (&routers.aggregated, &pools.aggregated),
            (&routers.prefill, &pools.prefill),
            (&routers.decode, &pools.decode),
        ];
        for (router, pool) in all {
            router.settle(&pool.workers);
            if let Some(feeds) = &self.feeds {
                feeds.settle(router, pool.workers.iter().map(|worker| worker.id()));
            }
        }
    }
}

fn make(
    config: &RouterConfig,
    policy: Option<PolicyConfig>,
    block_size: u32,
    seed: u64,
) -> Result<Router, ConfigError> {
    Router::with(config.clone(), block_size, seed, Extras { policy, ..Extras::default() })
}

/// The routers of one model in one namespace.
#[derive(Debug)]
pub(crate) struct KvPools {
    aggregated: Arc<KvRouter>,
    prefill: Arc<KvRouter>,
    decode: Arc<KvRouter>,
}

impl KvPools {
    /// That of a pool.
    pub(crate) fn of(&self, phase: Phase) -> &Arc<KvRouter> {
        match phase {
            Phase::Aggregated => &self.aggregated,
            Phase::Prefill => &self.prefill,
            Phase::Decode => &self.decode,
        }
    }
}
