//! What is simulated.

use dynosim_engine::{EngineConfig, Horizon, KvTransfer, Nanos, Reasoning};
use dynosim_router::{ConfigError, PolicyConfig, RouterConfig};
use dynosim_workload::WorkloadError;

use crate::sla::Sla;

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// At their own times.
    Schedule,
    /// As soon as fewer than so many sessions are in flight, whatever their times. A session of several turns stays in
    /// flight while it thinks.
    Concurrency(u32),
}

/// Workers of one kind.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Their engines, at least one, equal but for their random streams.
    pub engines: Vec<EngineConfig>,
    /// Tokens that one of them computes in a pass, for the router's queue; none: any number.
    pub max_num_batched_tokens: Option<u32>,
    /// GPUs of one worker, for the report.
    pub gpus_per_worker: u32,
    /// They take up work only this long after the start.
    pub startup: Nanos,
}

/// All workers.
#[derive(Clone, Debug)]
pub enum Fleet {
    /// Each does prefill and decode.
    Aggregated(Pool),
    /// One pool computes prompts, the other makes output.
    Disaggregated {
        /// Engines in the prefill role.
        prefill: Pool,
        /// Engines in the decode role, of the same kind as those of the prefill pool.
        decode: Pool,
        /// The way of KV between them.
        transfer: KvTransfer,
    },
}

/// How requests are spread over the workers of a pool.
#[derive(Clone, Debug)]
pub enum Routing {
    /// In turn.
    RoundRobin,
    /// By cached prefixes and load.
    Kv(Box<KvRouting>),
}

/// Settings of the KV router.
#[derive(Clone, Debug)]
pub struct KvRouting {
    /// Its keys. Prefill and decode pools each have a router, whose keys follow from these.
    pub config: RouterConfig,
    /// Classes of its queue.
    pub policy: Option<PolicyConfig>,
    /// Draws among equal costs, and by temperature, follow from it.
    pub seed: u64,
    /// So long after a pass, the router sees what became of the KV cache in it.
    pub event_lag: Nanos,
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct ReplayConfig {
    /// The workers.
    pub fleet: Fleet,
    /// How requests come to them.
    pub routing: Routing,
    /// When requests are sent.
    pub admission: Admission,
    /// The run ends here, whatever is in flight.
    pub end: Option<Nanos>,
    /// Limits for goodput.
    pub sla: Sla,
    /// Keep a row per request.
    pub records: bool,
    /// Eviction order of the KV cache, for the report.
    pub kv_eviction_policy: &'static str,
    /// Share of reasoning tokens in the output, for the report.
    pub reasoning: Option<Reasoning>,
    /// One pass at a time, for tests: the result is the same.
    pub horizon: Horizon,
    /// The request (its number in the input) whose way is to be explained; needs the KV router.
    pub explain: Option<u64>,
}

/// Called now and then with the number of requests that have ended.
pub type Progress<'a> = &'a mut dyn FnMut(u64);

/// A run that could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The workload is broken.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The router's settings do not fit together.
    #[error(transparent)]
    Router(#[from] ConfigError),
    /// A fault of the simulator: nothing can happen any more although requests are left. Every run is checked for it.
    #[error("{unfinished} requests are left at {at_ms} ms and nothing can happen any more; this is a bug")]
    Stuck {
        /// Requests in flight or never sent.
        unfinished: usize,
        /// When.
        at_ms: f64,
    },
}
