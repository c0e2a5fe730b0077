//! The program: everything that runs, started and stopped in order.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Client;
use prometheus::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::arguments::{Arguments, LogFormat};
use crate::cluster::api::Scope;
use crate::cluster::events::Events;
use crate::cluster::lease::{Candidate, Terms};
use crate::cluster::queue::Queue;
use crate::cluster::reconcile::{Context, reconcile};
use crate::cluster::scope::{LEASE, Restricted};
use crate::cluster::watch::Watches;
use crate::cluster::world::World;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::{check, health};

/// What the user gave cannot be used, or is not allowed.
const BAD_INPUT: u8 = 2;
/// Something outside failed.
const FAILED: u8 = 4;
/// Largest settings file in bytes.
const SETTINGS_MAX: u64 = 1 << 20;
/// Answers to calls, watches apart, come within this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the program ends.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("{0}")]
    Input(String),
    #[error("{0}")]
    Outside(String),
    /// Another operator acts now; this one starts anew as one that waits.
    #[error("lost the lease, ends at once")]
    Lost,
}

/// Runs until the process is asked to end.
pub fn main(arguments: &Arguments) -> ExitCode {
    log(arguments.log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run(arguments)),
        Err(error) => Err(End::Outside(format!("no threads: {error}"))),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(end) => {
            tracing::error!("{end}");
            ExitCode::from(if matches!(end, End::Input(_)) { BAD_INPUT } else { FAILED })
        }
    }
}

fn log(format: LogFormat) {
    let filter = EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).from_env_lossy();
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second subscriber in one process is a test's.
    let _ = match format {
        LogFormat::Text => subscriber.with_ansi(false).try_init(),
        LogFormat::Json => subscriber.json().try_init(),
    };
}

async fn run(arguments: &Arguments) -> Result<(), End> {
    let config = Arc::new(settings(arguments)?);
    let client = client().await?;
    if arguments.check {
        return match check::check(&client, arguments, &config, std::io::stdout()).await {
            Ok(0) => Ok(()),
            Ok(lacking) => Err(End::Input(format!("the account lacks {lacking} permissions"))),
            Err(reason) => Err(End::Outside(reason)),
        };
    }
    let stop = CancellationToken::new();
    let signals = end_on_signals(&stop)?;
    let operator = Operator::new(arguments, config, client)?;
    let ended = operator.serve(&stop).await;
    signals.abort();
    ended
}

/// Settings of the file, or the usual ones.
fn settings(arguments: &Arguments) -> Result<Config, End> {
    let Some(path) = &arguments.config else { return Ok(Config::default()) };
    let input = |reason: String| End::Input(format!("{}: {reason}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| input(error.to_string()))?.len();
    if size > SETTINGS_MAX {
        return Err(input(format!("{size} bytes, at most {SETTINGS_MAX} are read")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| input(error.to_string()))?;
    let config: Config = if text.trim().is_empty() {
        Config::default()
    } else {
        serde_saphyr::from_str(&text).map_err(|error| input(error.to_string()))?
    };
    config.check().map_err(input)?;
    Ok(config)
}

async fn client() -> Result<Client, End> {
    let mut config = kube::Config::infer().await.map_err(|error| End::Input(format!("no cluster: {error}")))?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config).map_err(|error| End::Input(format!("no cluster: {error}")))
}

fn end_on_signals(stop: &CancellationToken) -> Result<tokio::task::JoinHandle<()>, End> {
    let listen = |kind| signal(kind).map_err(|error| End::Outside(format!("no signals: {error}")));
    let (mut term, mut int) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let stop = stop.clone();
    Ok(tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        tracing::info!("asked to end");
        stop.cancel();
    }))
}

/// Everything that runs.
struct Operator<'a> {
    arguments: &'a Arguments,
    config: Arc<Config>,
    client: Client,
    registry: Registry,
    metrics: Arc<Metrics>,
    identity: String,
    /// Acts, but has not listed everything yet.
    is_catching_up: Arc<AtomicBool>,
}

impl<'a> Operator<'a> {
    fn new(arguments: &'a Arguments, config: Arc<Config>, client: Client) -> Result<Self, End> {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).map_err(|error| End::Outside(error.to_string()))?;
        let identity = arguments.identity.clone().unwrap_or_else(identity);
        let (metrics, is_catching_up) = (Arc::new(metrics), Arc::default());
        Ok(Self { arguments, config, client, registry, metrics, identity, is_catching_up })
    }

    async fn serve(&self, stop: &CancellationToken) -> Result<(), End> {
        let mut servers = JoinSet::new();
        let is_catching_up = Arc::clone(&self.is_catching_up);
        let is_ready = move || {
            if is_catching_up.load(Ordering::Relaxed) { Err("reads the cluster") } else { Ok(()) }
        };
        let health_listener = health::listen(self.arguments.health_addr).await.map_err(End::Input)?;
        let metrics_listener = health::listen(self.arguments.metrics_addr).await.map_err(End::Input)?;
        servers.spawn(health::serve(health_listener, health::health(is_ready)));
        servers.spawn(health::serve(metrics_listener, health::metrics(self.registry.clone())));
        let ended = self.lead(stop).await;
        servers.shutdown().await;
        ended
    }

    /// Waits for its turn, and acts until it is asked to end or loses the lease.
    async fn lead(&self, stop: &CancellationToken) -> Result<(), End> {
        let candidates = self.candidates();
        for candidate in &candidates {
            tokio::select! {
                () = candidate.acquire() => {}
                () = stop.cancelled() => return Ok(()),
            }
        }
        tracing::info!(identity = self.identity, "acts");
        let lost = CancellationToken::new();
        let mut holders = JoinSet::new();
        let candidates: Vec<_> = candidates.into_iter().map(Arc::new).collect();
        for candidate in &candidates {
            let (candidate, lost) = (Arc::clone(candidate), lost.clone());
            holders.spawn(async move {
                candidate.hold().await;
                lost.cancel();
            });
        }
        let is_over = tokio::select! {
            () = self.act(stop) => true,
            // Whoever acts now must not be disturbed by what is still under way here.
            () = lost.cancelled() => false,
        };
        holders.shutdown().await;
        if !is_over {
            return Err(End::Lost);
        }
        for candidate in &candidates {
            candidate.release().await;
        }
        Ok(())
    }

    fn candidates(&self) -> Vec<Candidate> {
        let Arguments { own_namespace, leader_election_id, namespace, .. } = self.arguments;
        let mut candidates = Vec::new();
        if self.arguments.leader_elect {
            let client = self.client.clone();
            candidates.push(Candidate::new(client, own_namespace, leader_election_id, &self.identity, Terms::LEADER));
        }
        if let Some(namespace) = namespace {
            let Arguments { namespace_lease_duration, namespace_lease_renew_interval, .. } = self.arguments;
            let terms = Terms::new(*namespace_lease_duration, *namespace_lease_renew_interval);
            candidates.push(Candidate::new(self.client.clone(), namespace, LEASE, &self.identity, terms));
        }
        candidates
    }

    async fn act(&self, stop: &CancellationToken) {
        self.is_catching_up.store(true, Ordering::Relaxed);
        let scope = self.arguments.namespace.clone().map_or(Scope::Cluster, Scope::Namespace);
        let (world, restricted) = (Arc::new(World::default()), Arc::new(Restricted::default()));
        let queue = Queue::default();
        let sender = queue.sender();
        let mut followers = JoinSet::new();
        let listed = Arc::new(Notify::new());
        if scope == Scope::Cluster {
            let (client, world, sender) = (self.client.clone(), Arc::clone(&world), sender.clone());
            followers.spawn(Arc::clone(&restricted).follow(client, world, sender, Arc::clone(&listed)));
        } else {
            listed.notify_one();
        }
        let watches = Watches::start(&self.client, &scope, &world, &sender, self.config.pod_monitors);
        let context = Context {
            client: self.client.clone(),
            world,
            config: Arc::clone(&self.config),
            restricted,
            events: Events::new(self.client.clone(), self.identity.clone()),
            metrics: Arc::clone(&self.metrics),
        };
        let known = async {
            watches.complete().await;
            listed.notified().await;
        };
        tokio::select! {
            () = known => {
                self.is_catching_up.store(false, Ordering::Relaxed);
                queue.run(stop, |key| reconcile(&context, key)).await;
            }
            () = stop.cancelled() => {}
        }
        watches.stop().await;
        followers.shutdown().await;
    }
}

/// Of a process that nobody gave a name.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let number: u32 = std::process::id();
    let time = jiff::Timestamp::now().as_nanosecond();
    format!("{}-{number}-{time:x}", host.trim())
}
