//! Prometheus metrics under the published names.
//!
//! ```text
//!   http ──► Watcher (one per request) ──► ModelMetrics (cached series of a model)
//!   serve ─► PlaneMetrics, RouterMetrics, WorkerGauges
//!   scrape ► ProcessMetrics (async runtime, uptime) ──► text
//! ```
//!
//! Only what is measured is there: series of parts that this frontend does not have (multimodal) or that are not in use (KV
//! router) are not made up.

mod families;
mod kv;
mod model;
mod plane;
mod process;
mod router;
mod watcher;
mod workers;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use dynosim_wire::EndpointId;
use prometheus::{Registry, TextEncoder};

use crate::config::Buckets;
use families::{Families, Make};
pub(crate) use kv::{KvMetrics, PoolMetrics};
pub(crate) use model::{ModelLimits, ModelMetrics};
pub(crate) use plane::{Counted, Phase, PlaneMetrics};
use process::ProcessMetrics;
use router::RouterFamilies;
pub(crate) use router::RouterMetrics;
pub(crate) use watcher::Watcher;
pub(crate) use workers::WorkerGauges;
use workers::Workers;

/// The label of requests for models that are not known: clients choose names, so they must not become labels.
const UNKNOWN_MODEL: &str = "unknown_model";

/// All metrics of a frontend.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    prefix: String,
    families: Arc<Families>,
    models: RwLock<BTreeMap<Arc<str>, Arc<ModelMetrics>>>,
    unknown: Arc<ModelMetrics>,
    pub(crate) plane: PlaneMetrics,
    router_families: RouterFamilies,
    routers: RwLock<BTreeMap<EndpointId, Arc<RouterMetrics>>>,
    pub(crate) workers: Workers,
    process: ProcessMetrics,
}

impl Metrics {
    /// All metrics; those of the frontend itself begin with `prefix`. `instance` is the frontend's own id.
    pub(crate) fn new(prefix: &str, buckets: &Buckets, instance: u64) -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let make = Make { registry: &registry, prefix };
        let families = Arc::new(Families::new(&make, buckets)?);
        Ok(Self {
            plane: PlaneMetrics::new(&make, &families.stage)?,
            router_families: RouterFamilies::new(&make, buckets, instance)?,
            workers: Workers::new(&make)?,
            process: ProcessMetrics::new(&make, instance)?,
            unknown: Arc::new(ModelMetrics::unknown(&families, UNKNOWN_MODEL)),
            models: RwLock::default(),
            routers: RwLock::default(),
            families,
            registry,
            prefix: prefix.to_owned(),
        })
    }

    /// The series of a model that is served; made when first asked for.
    pub(crate) fn model(&self, name: &Arc<str>) -> Arc<ModelMetrics> {
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        let known = models.entry(Arc::clone(name));
        Arc::clone(known.or_insert_with(|| Arc::new(ModelMetrics::known(&self.families, name))))
    }

    /// The series of a model that a client names.
    pub(crate) fn named(&self, name: &str) -> Arc<ModelMetrics> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(models.get(name).unwrap_or(&self.unknown))
    }

    /// The series of the routes to an endpoint.
    pub(crate) fn router(&self, endpoint: &EndpointId) -> Arc<RouterMetrics> {
        if let Some(known) = self.routers.read().unwrap_or_else(PoisonError::into_inner).get(endpoint) {
            return Arc::clone(known);
        }
        let mut routers = self.routers.write().unwrap_or_else(PoisonError::into_inner);
        let made = || Arc::new(self.router_families.of(&endpoint.namespace, &endpoint.component));
        Arc::clone(routers.entry(endpoint.clone()).or_insert_with(made))
    }

    /// The series of KV-aware routing; made once, where there is such.
    pub(crate) fn kv(&self, instance: u64) -> Result<KvMetrics, prometheus::Error> {
        KvMetrics::new(&Make { registry: &self.registry, prefix: &self.prefix }, instance)
    }

    /// How late a timer of the async runtime came.
    pub(crate) fn timer_was_late(&self, seconds: f64) {
        self.process.timer_was_late(seconds);
    }

    /// The page; workers that are not `there` any more leave it.
    pub(crate) fn page(&self, there: impl Fn(u64) -> bool) -> Result<String, prometheus::Error> {
        self.workers.keep(there);
        self.process.update();
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}
