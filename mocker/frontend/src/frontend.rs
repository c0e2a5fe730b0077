//! A frontend in this process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dynosim_router::ConfigError;
use dynosim_wire::discovery::{Discovery, DiscoveryError};
use dynosim_wire::request::{RequestClient, ServerError};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::{FrontendConfig, RoutingMode};
use crate::http::{Limits, Server};
use crate::kv::Kv;
use crate::metrics::Metrics;
use crate::models::Registry;
use crate::route::Router;
use crate::serve::{Core, Serving};

/// Pause between two looks at how late the runtime's timers come.
const CANARY_PERIOD: Duration = Duration::from_millis(10);

/// A frontend that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum FrontendError {
    /// The HTTP port.
    #[error("HTTP on {address}: {source}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Discovery.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The request plane.
    #[error(transparent)]
    RequestPlane(#[from] ServerError),
    /// Settings of the KV router.
    #[error(transparent)]
    Router(#[from] ConfigError),
    /// Names of metrics.
    #[error("metrics prefix `{prefix}`: {reason}")]
    Metrics {
        /// What names were to begin with.
        prefix: String,
        /// Why not.
        reason: String,
    },
}

/// A running frontend.
#[derive(Debug)]
pub struct Frontend {
    server: Server,
    client: RequestClient,
    discovery: Discovery,
    canary: JoinHandle<()>,
    /// How many models are ready.
    ready: watch::Receiver<usize>,
    grace: Duration,
}

impl Frontend {
    /// Listens for HTTP and follows discovery from now on; models appear as their workers do.
    pub async fn start(config: FrontendConfig) -> Result<Self, FrontendError> {
        // The port first: whatever else fails, a taken port is what the user should hear of.
        let listener = TcpListener::bind(config.address)
            .await
            .map_err(|source| FrontendError::Bind { address: config.address, source })?;
        let discovery = Discovery::connect(&config.runtime.discovery).await?;
        let client = RequestClient::start(&config.runtime).await?;
        let metrics =
            Metrics::new(&config.metrics_prefix, &config.buckets, discovery.instance_id()).map_err(|error| {
                FrontendError::Metrics { prefix: config.metrics_prefix.clone(), reason: error.to_string() }
            })?;
        let metrics = Arc::new(metrics);
        let kv = kv(&config, &client, &discovery, &metrics)?;
        let registry =
            Registry::start(&discovery, &config.scope, config.min_initial_workers, Arc::clone(&metrics), kv.clone());
        let ready = registry.ready();
        let core = Arc::new(Core {
            client: client.clone(),
            router: Router::new(config.routing, config.seed),
            kv,
            metrics: Arc::clone(&metrics),
            migration: config.migration,
            idle_limit: config.idle_limit,
        });
        let canary = tokio::spawn(watch_timers(metrics));
        let mut limits = Limits::default();
        limits.body_bytes = config.body_limit.unwrap_or(limits.body_bytes);
        let server = Server::start(listener, Arc::new(Serving { core, registry }), limits)
            .map_err(|source| FrontendError::Bind { address: config.address, source })?;
        Ok(Self { server, client, discovery, canary, ready, grace: config.grace })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.local_address()
    }

    /// Resolves once a model is ready: requests for it are served from then on.
    pub fn model_ready(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ready = self.ready.clone();
        async move {
            // The registry lives as long as the frontend; without it there is nothing to wait for.
            let _ = ready.wait_for(|models| *models > 0).await;
        }
    }

    /// Takes no more requests, lets those that run end within the grace time, then stops.
    pub async fn shutdown(self) {
        self.server.shutdown(self.grace).await;
        self.client.close().await;
        self.canary.abort();
        if let Err(error) = self.discovery.close().await {
            tracing::warn!(%error, "leaving discovery failed");
        }
    }
}

/// What KV-aware routers share, in that mode.
fn kv(
    config: &FrontendConfig,
    client: &RequestClient,
    discovery: &Discovery,
    metrics: &Metrics,
) -> Result<Option<Arc<Kv>>, FrontendError> {
    if config.routing != RoutingMode::Kv {
        return Ok(None);
    }
    let measures = metrics
        .kv(discovery.instance_id())
        .map_err(|error| FrontendError::Metrics { prefix: config.metrics_prefix.clone(), reason: error.to_string() })?;
    let shared = (discovery, &config.scope);
    Ok(Some(Arc::new(Kv::start(&config.kv, config.seed, Arc::new(measures), client, &config.runtime, shared)?)))
}

/// Measures how late timers come: a sign of a runtime that is too busy.
async fn watch_timers(metrics: Arc<Metrics>) {
    loop {
        let begun = dynosim_wire::time::now();
        tokio::time::sleep(CANARY_PERIOD).await;
        metrics.timer_was_late(begun.elapsed().saturating_sub(CANARY_PERIOD).as_secs_f64());
    }
}
