//! `dynosim frontend`: an OpenAI server in front of workers.
#![allow(clippy::doc_markdown, reason = "doc comments are help texts here")]

mod elsewhere;
mod router;
mod settings;

use std::net::IpAddr;
use std::num::NonZeroUsize;

use clap::ValueEnum;
use dynosim_frontend::{Frontend, FrontendError};
use dynosim_wire::discovery::MemStore;

use crate::failure::Failure;
use crate::live::{Env, Reached, Running, run_component};

/// Serve the OpenAI API in front of workers
#[derive(Debug, clap::Args)]
pub(crate) struct Flags {
    /// Address to listen on [env: DYN_HTTP_HOST] [default: 0.0.0.0]
    #[arg(long, value_name = "ADDRESS")]
    http_host: Option<IpAddr>,
    /// Port to listen on; 0: any [env: DYN_HTTP_PORT] [default: 8000]
    #[arg(long, value_name = "PORT")]
    http_port: Option<u16>,
    /// How a worker is chosen [env: DYN_ROUTER_MODE] [default: round-robin]
    #[arg(long, value_enum, value_name = "MODE")]
    router_mode: Option<RouterMode>,
    /// Serve the models of this namespace only [env: DYN_NAMESPACE] [default: all]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Serve the models of namespaces that begin with this; wins over --namespace [env: DYN_NAMESPACE_PREFIX]
    #[arg(long, value_name = "PREFIX")]
    namespace_prefix: Option<String>,
    /// A model is not served before it has had this many workers [env: DYN_ROUTER_MIN_INITIAL_WORKERS] [default: 0]
    #[arg(long, value_name = "COUNT")]
    router_min_initial_workers: Option<usize>,
    /// Times that a request may go on at another worker [env: DYN_MIGRATION_LIMIT] [default: the model card's]
    #[arg(long, value_name = "COUNT")]
    migration_limit: Option<u32>,
    /// Requests of more tokens stay where they are [env: DYN_MIGRATION_MAX_SEQ_LEN] [default: not limited]
    #[arg(long, value_name = "TOKENS")]
    migration_max_seq_len: Option<NonZeroUsize>,
    /// What metric names begin with [env: DYN_METRICS_PREFIX] [default: dynamo_frontend]
    #[arg(long, value_name = "PREFIX")]
    metrics_prefix: Option<String>,
    /// Deprecated, without effect: what a graph needs is told by its workers [env: DYN_ENFORCE_DISAGG]
    #[arg(long, hide = true, overrides_with = "no_enforce_disagg")]
    enforce_disagg: bool,
    /// Deprecated, without effect
    #[arg(long, hide = true)]
    no_enforce_disagg: bool,
    /// Published manifests give it; without effect: models are those of the workers [env: DYN_MODEL_NAME]
    #[arg(long, hide = true)]
    model_name: Option<String>,
    #[command(flatten)]
    pub(crate) runtime: crate::live::RuntimeFlags,
    #[command(flatten)]
    router: router::Given,
    #[command(flatten)]
    elsewhere: elsewhere::Given,
}

/// How a worker is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RouterMode {
    /// One after the other
    RoundRobin,
    /// Any
    Random,
    /// The less busy of two drawn ones
    PowerOfTwo,
    /// The one with the fewest requests
    LeastLoaded,
    /// The one that the request names
    Direct,
    /// The cheapest by what it has cached and what it has to do
    Kv,
    /// Not in this version
    #[value(hide = true)]
    DeviceAwareWeighted,
}

/// Runs until told to stop.
pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    let env = Env::of_process();
    run_component(&env, async |_stop| start(flags, &env, None).await)
}

/// Starts the server in this process; `mem` is the store that it shares with others, if there is one.
pub(crate) async fn start(flags: Flags, env: &Env, mem: Option<&MemStore>) -> Result<Box<dyn Running>, Failure> {
    let config = settings::resolve(&flags, env, mem)?;
    let frontend = Frontend::start(config).await.map_err(|error| match error {
        FrontendError::Metrics { .. } | FrontendError::Router(_) => Failure::input(error),
        FrontendError::Bind { .. } | FrontendError::Discovery(_) | FrontendError::RequestPlane(_) => Failure::io(error),
    })?;
    Ok(Box::new(frontend))
}

impl Running for Frontend {
    fn describe(&self) -> String {
        format!("frontend: http://{}", self.address())
    }

    fn url(&self) -> Option<String> {
        Some(format!("http://{}", self.address()))
    }

    fn ready(&self) -> Reached {
        Box::pin(self.model_ready())
    }

    fn drain(self: Box<Self>) -> Reached {
        Box::pin(self.shutdown())
    }
}
