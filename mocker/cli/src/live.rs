//! What the live commands share: settings from flags and environment, the async runtime, signals, and how a part of a
//! serving graph runs in this process.
#![allow(clippy::doc_markdown, reason = "doc comments are help texts here")]

mod pod;
pub(crate) mod process;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use clap::{Args, ValueEnum};
use dynosim_wire::discovery::MemStore;
use dynosim_wire::runtime::advertised_host;
use dynosim_wire::{DiscoveryConfig, EventPlane, RequestPlane, Runtime};

use crate::failure::Failure;

pub(crate) use process::run_component;

/// Life of a file record whose owner does not touch it (as published).
const FILE_TTL: Duration = Duration::from_secs(10);
/// Life of an etcd lease without keep-alive (`ETCD_LEASE_TTL`, as published).
const ETCD_LEASE_TTL_S: u64 = 30;

/// Environment variables of one component: the process's, or those that a manifest gives it. Flags win over them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Env(BTreeMap<String, String>);

impl Env {
    /// The process's own.
    pub(crate) fn of_process() -> Self {
        Self(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect())
    }

    /// With further variables, which win.
    pub(crate) fn with(mut self, more: impl IntoIterator<Item = (String, String)>) -> Self {
        self.0.extend(more);
        self
    }

    /// A variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A variable as a value; an error names it, what it says and what is allowed.
    pub(crate) fn parse<T: std::str::FromStr>(&self, name: &str, allowed: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let refuse = |_| Failure::input(format_args!("{name}: `{text}` cannot be used (allowed: {allowed})"));
        text.trim().parse().map(Some).map_err(refuse)
    }

    /// A variable that names one of a flag's values.
    pub(crate) fn choose<T: ValueEnum>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.get(name) else { return Ok(None) };
        T::from_str(text, true).map(Some).map_err(|_| {
            let names = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let allowed: Vec<_> = names.map(|value| value.get_name().to_owned()).collect();
            Failure::input(format_args!("{name}: `{text}` cannot be used (allowed: {})", allowed.join(", ")))
        })
    }
}

/// Stores of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiscoveryBackend {
    /// Pods of a Kubernetes cluster
    Kubernetes,
    /// An etcd server
    Etcd,
    /// A folder of this machine
    File,
    /// This process
    Mem,
}

/// Ways of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RequestPlaneKind {
    Nats,
    Tcp,
}

/// Ways of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventPlaneKind {
    Nats,
    Zmq,
}

/// Ways of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResponsePlaneKind {
    Tcp,
    Quic,
}

/// How the component takes part in the serving graph
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Runtime")]
pub(crate) struct RuntimeFlags {
    /// Where components find each other [env: DYN_DISCOVERY_BACKEND] [default: etcd]
    #[arg(long, value_enum, value_name = "STORE")]
    pub(crate) discovery_backend: Option<DiscoveryBackend>,
    /// How requests travel [env: DYN_REQUEST_PLANE] [default: tcp]
    #[arg(long, value_enum, value_name = "PLANE")]
    pub(crate) request_plane: Option<RequestPlaneKind>,
    /// How responses travel [env: DYN_RESPONSE_PLANE] [default: tcp]
    #[arg(long, value_enum, value_name = "PLANE")]
    pub(crate) response_plane: Option<ResponsePlaneKind>,
    /// How events travel [env: DYN_EVENT_PLANE] [default: zmq with file and mem; nats with etcd; with kubernetes nats if NATS_SERVER is set, else zmq]
    #[arg(long, value_enum, value_name = "PLANE")]
    pub(crate) event_plane: Option<EventPlaneKind>,
}

impl RuntimeFlags {
    /// For the parts of one process: nothing outside is needed, whatever a manifest says for a cluster.
    pub(crate) fn in_process() -> Self {
        Self {
            discovery_backend: Some(DiscoveryBackend::Mem),
            request_plane: Some(RequestPlaneKind::Tcp),
            response_plane: Some(ResponsePlaneKind::Tcp),
            event_plane: Some(EventPlaneKind::Zmq),
        }
    }

    /// Flags over environment over defaults. `mem` is the store of this process, if the command has one to share.
    pub(crate) fn resolve(&self, env: &Env, mem: Option<&MemStore>) -> Result<Runtime, Failure> {
        let backend = match self.discovery_backend {
            Some(backend) => backend,
            None => env.choose("DYN_DISCOVERY_BACKEND")?.unwrap_or(DiscoveryBackend::Etcd),
        };
        if let ResponsePlaneKind::Quic = match self.response_plane {
            Some(plane) => plane,
            None => env.choose("DYN_RESPONSE_PLANE")?.unwrap_or(ResponsePlaneKind::Tcp),
        } {
            return Err(Failure::input("response plane `quic`: not supported (allowed: tcp)"));
        }
        let nats = || env.get("NATS_SERVER").unwrap_or("nats://localhost:4222").to_owned();
        let request_plane = match self.request_plane {
            Some(plane) => plane,
            None => env.choose("DYN_REQUEST_PLANE")?.unwrap_or(RequestPlaneKind::Tcp),
        };
        let event_plane = match self.event_plane {
            Some(plane) => plane,
            None => env.choose("DYN_EVENT_PLANE")?.unwrap_or(match backend {
                DiscoveryBackend::Etcd => EventPlaneKind::Nats,
                DiscoveryBackend::Kubernetes if env.get("NATS_SERVER").is_some() => EventPlaneKind::Nats,
                DiscoveryBackend::Kubernetes | DiscoveryBackend::File | DiscoveryBackend::Mem => EventPlaneKind::Zmq,
            }),
        };
        let host = env.parse("DYN_TCP_RPC_HOST", "an IP address")?;
        if backend == DiscoveryBackend::Kubernetes {
            check_reachable(host)?;
        }
        Ok(Runtime {
            discovery: discovery(backend, env, mem)?,
            request_plane: match request_plane {
                RequestPlaneKind::Tcp => RequestPlane::Tcp,
                RequestPlaneKind::Nats => RequestPlane::Nats(nats()),
            },
            event_plane: match event_plane {
                EventPlaneKind::Zmq => EventPlane::Zmq,
                EventPlaneKind::Nats => EventPlane::Nats(nats()),
            },
            host,
            port: env.parse("DYN_TCP_RPC_PORT", "a port")?.unwrap_or(0),
            event_host: env.parse("DYN_EVENT_PLANE_HOST", "an IP address")?,
            handoff_host: env.parse("DYN_HTTP_RPC_HOST", "an IP address")?,
        })
    }
}

/// Loopback leads other pods to themselves: without another address to give them, requests would hang.
fn check_reachable(host: Option<IpAddr>) -> Result<(), Failure> {
    let advertised = advertised_host(host);
    match host {
        None if advertised.is_loopback() => Err(Failure::input(
            "DYN_TCP_RPC_HOST: is needed with discovery backend `kubernetes`, as this machine has no address but loopback \
             (allowed: the pod's IP address)",
        )),
        Some(_) if advertised.is_loopback() => {
            tracing::warn!(DYN_TCP_RPC_HOST = %advertised, "other pods cannot reach loopback");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn discovery(backend: DiscoveryBackend, env: &Env, mem: Option<&MemStore>) -> Result<DiscoveryConfig, Failure> {
    Ok(match backend {
        DiscoveryBackend::Mem => match mem {
            Some(store) => DiscoveryConfig::Mem(store.clone()),
            None => DiscoveryConfig::Mem(MemStore::default()),
        },
        DiscoveryBackend::File => DiscoveryConfig::File {
            root: env.get("DYN_FILE_KV").map_or_else(|| std::env::temp_dir().join("dynamo_store_kv"), PathBuf::from),
            ttl: FILE_TTL,
        },
        DiscoveryBackend::Etcd => DiscoveryConfig::Etcd {
            endpoints: {
                let list = env.get("ETCD_ENDPOINTS").unwrap_or("http://localhost:2379");
                list.split(',').map(|endpoint| endpoint.trim().to_owned()).collect()
            },
            ttl: Duration::from_secs(env.parse("ETCD_LEASE_TTL", "whole seconds")?.unwrap_or(ETCD_LEASE_TTL_S)),
        },
        DiscoveryBackend::Kubernetes => {
            DiscoveryConfig::Kubernetes { pod: pod::identity(env, Path::new(pod::PODINFO))?, kubeconfig: None }
        }
    })
}

/// What ends when a component has come to a state.
pub(crate) type Reached = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A part of a serving graph that runs in this process.
pub(crate) trait Running: Send {
    /// One line: what it is and where it can be reached.
    fn describe(&self) -> String;
    /// Address for clients, if it serves clients.
    fn url(&self) -> Option<String> {
        None
    }
    /// Resolves when it can do its work, which may need others.
    fn ready(&self) -> Reached {
        Box::pin(std::future::ready(()))
    }
    /// Leaves discovery, lets requests end within the grace time, then stops.
    fn drain(self: Box<Self>) -> Reached;
}
