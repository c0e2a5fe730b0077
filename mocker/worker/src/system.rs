//! The system port: health, metrics, and the model's files, for everything in this process.
//!
//! Where it differs from upstream 1.6.1: there `/health` and `/live` say 503 `notready` while requests are being served,
//! unless environment variables name the endpoints to look at. Here `/health` is 200 once every endpoint is ready, and
//! `/live` is 200 as long as the process answers.

mod connections;
mod serve;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use dynosim_wire::EndpointId;
use dynosim_wire::card::ModelFiles;
use dynosim_wire::runtime::advertised_host;
use dynosim_wire::time;
use prometheus::Gauge;
use serde::Serialize;

use crate::metrics::Metrics;

/// Where the system port is and what it goes by.
#[derive(Clone, Debug)]
pub struct SystemConfig {
    /// `DYN_SYSTEM_HOST`.
    pub host: IpAddr,
    /// `DYN_SYSTEM_PORT`; 0: any.
    pub port: u16,
    /// `DYN_SYSTEM_HEALTH_PATH`.
    pub health_path: String,
    /// `DYN_SYSTEM_LIVE_PATH`.
    pub live_path: String,
    /// `DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS`: endpoints that must be ready; all that there are if empty.
    pub required: Vec<String>,
    /// `DYN_SYSTEM_STARTING_HEALTH_STATUS` is `ready`: before the first endpoint is there, all is well.
    pub starts: Readiness,
}

/// Whether something can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Readiness {
    /// It can.
    Ready,
    /// Not now.
    #[default]
    NotReady,
}

/// A system port that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("system port {address}: {source}")]
pub struct SystemError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    pub source: std::io::Error,
}

#[derive(Debug, Default)]
struct State {
    /// Endpoints with the workers that serve them.
    endpoints: BTreeMap<String, BTreeMap<u64, Readiness>>,
    uptimes: Vec<Gauge>,
    /// Paths below `/v1/metadata/` and the folder behind each.
    folders: BTreeMap<String, PathBuf>,
}

/// What the workers of a process have in common, with or without a port.
#[derive(Debug)]
pub struct System {
    start: Instant,
    metrics: Metrics,
    state: Mutex<State>,
    required: Vec<String>,
    starts: Readiness,
    /// Where the port is.
    address: Option<SocketAddr>,
    _listener: Option<serve::Guard>,
}

#[derive(Serialize)]
struct Uptime {
    secs: u64,
    nanos: u32,
}

/// The body of `/health` and `/live`.
#[derive(Serialize)]
pub(crate) struct Health {
    status: Readiness,
    uptime: Uptime,
    endpoints: BTreeMap<String, Readiness>,
}

impl System {
    /// Without a port.
    pub fn closed(metrics: Metrics) -> Self {
        Self {
            start: time::now(),
            metrics,
            state: Mutex::default(),
            required: Vec::new(),
            starts: Readiness::NotReady,
            address: None,
            _listener: None,
        }
    }

    /// Opens the port. It is closed when the last reference goes.
    pub async fn open(metrics: Metrics, config: &SystemConfig) -> Result<std::sync::Arc<Self>, SystemError> {
        let wanted = SocketAddr::new(config.host, config.port);
        let fault = |source| SystemError { address: wanted, source };
        let listener = tokio::net::TcpListener::bind(wanted).await.map_err(fault)?;
        let address = listener.local_addr().map_err(fault)?;
        let system = std::sync::Arc::new_cyclic(|own| Self {
            address: Some(address),
            _listener: Some(serve::spawn(listener, config, own.clone())),
            required: config.required.clone(),
            starts: config.starts,
            ..Self::closed(metrics)
        });
        tracing::info!(%address, "system port");
        Ok(system)
    }

    /// Where the port is, if it is open.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// All metrics of the process.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An endpoint of a worker is there.
    pub(crate) fn set(&self, endpoint: &str, worker: u64, readiness: Readiness) {
        self.lock().endpoints.entry(endpoint.to_owned()).or_default().insert(worker, readiness);
    }

    /// A worker has gone.
    pub(crate) fn remove(&self, worker: u64) {
        let mut state = self.lock();
        state.endpoints.retain(|_, workers| {
            workers.remove(&worker);
            !workers.is_empty()
        });
    }

    pub(crate) fn count_uptime(&self, worker: &str) {
        let gauge = self.metrics.uptime(worker);
        self.lock().uptimes.push(gauge);
    }

    /// Serves a model's files; what comes back is the URL of their folder. None without a port. Others reach the port at
    /// its own address if it has one, else at that of the process, `host`.
    pub(crate) fn serve_model(
        &self,
        endpoint: &EndpointId,
        model_name: &str,
        files: &ModelFiles,
        host: Option<IpAddr>,
    ) -> Option<String> {
        let address = self.address?;
        let host = advertised_host(Some(address.ip()).filter(|own| !own.is_unspecified()).or(host));
        let slug = dynosim_wire::card::slug(model_name);
        let path = format!("{}/{slug}/_base", endpoint.path());
        self.lock().folders.insert(path.clone(), files.folder.clone());
        Some(format!("http://{}/v1/metadata/{path}", SocketAddr::new(host, address.port())))
    }

    pub(crate) fn health(&self) -> Health {
        let state = self.lock();
        let of = |workers: &BTreeMap<u64, Readiness>| {
            let all = workers.values().all(|&readiness| readiness == Readiness::Ready);
            if all { Readiness::Ready } else { Readiness::NotReady }
        };
        let endpoints: BTreeMap<_, _> =
            state.endpoints.iter().map(|(name, workers)| (name.clone(), of(workers))).collect();
        let ready = |name: &String| endpoints.get(name) == Some(&Readiness::Ready);
        let well = if endpoints.is_empty() {
            self.starts == Readiness::Ready
        } else if self.required.is_empty() {
            endpoints.keys().all(ready)
        } else {
            self.required.iter().all(ready)
        };
        let uptime = time::now().duration_since(self.start);
        Health {
            status: if well { Readiness::Ready } else { Readiness::NotReady },
            uptime: Uptime { secs: uptime.as_secs(), nanos: uptime.subsec_nanos() },
            endpoints,
        }
    }

    pub(crate) fn metrics_text(&self) -> Result<Vec<u8>, prometheus::Error> {
        let uptime = time::now().duration_since(self.start).as_secs_f64();
        self.lock().uptimes.iter().for_each(|gauge| gauge.set(uptime));
        self.metrics.to_text()
    }

    /// The file behind a path below `/v1/metadata/`, if it is one that is served.
    pub(crate) fn file(&self, path: &str) -> Option<PathBuf> {
        let (folder, name) = path.rsplit_once('/')?;
        if name.is_empty() || name.starts_with('.') {
            return None;
        }
        Some(self.lock().folders.get(folder)?.join(name))
    }
}
