//! How a process takes part in the contract.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::discovery::{MemStore, PodIdentity};

/// Where records are kept.
#[derive(Clone, Debug)]
pub enum DiscoveryConfig {
    /// In this process.
    Mem(MemStore),
    /// In a folder (`DYN_FILE_KV`).
    File {
        /// The folder; made if it does not exist.
        root: PathBuf,
        /// A record whose file was not touched for that long is dead.
        ttl: Duration,
    },
    /// In etcd (`ETCD_ENDPOINTS`, `ETCD_LEASE_TTL`).
    Etcd {
        /// `http://host:port`, tried in order.
        endpoints: Vec<String>,
        /// Life of the lease without keep-alive.
        ttl: Duration,
    },
    /// In a Kubernetes cluster, as an object that belongs to a pod.
    Kubernetes {
        /// The pod, and its namespace, which alone is looked at.
        pod: PodIdentity,
        /// Where and as whom to reach the cluster; none: `KUBECONFIG`, else `~/.kube/config`, else the pod's service account.
        kubeconfig: Option<PathBuf>,
    },
}

/// How requests travel (`DYN_REQUEST_PLANE`). Responses always come over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestPlane {
    /// Straight to the worker.
    Tcp,
    /// Through a NATS server (`NATS_SERVER`).
    Nats(String),
}

/// How events travel (`DYN_EVENT_PLANE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventPlane {
    /// From each publisher's own socket.
    Zmq,
    /// Through a NATS server (`NATS_SERVER`).
    Nats(String),
}

/// How a process takes part in the contract.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Where records are kept.
    pub discovery: DiscoveryConfig,
    /// How requests travel.
    pub request_plane: RequestPlane,
    /// How events travel.
    pub event_plane: EventPlane,
    /// Address that the servers of this process listen on and advertise (`DYN_TCP_RPC_HOST`); unset: all interfaces,
    /// advertising a routable address if there is one ([`advertised_host`]).
    pub host: Option<IpAddr>,
    /// Port of the request plane's server (`DYN_TCP_RPC_PORT`); 0: any.
    pub port: u16,
    /// Address that event sockets are advertised at (`DYN_EVENT_PLANE_HOST`) if not at [`Self::host`]; they then listen on
    /// all interfaces.
    pub event_host: Option<IpAddr>,
    /// As above for the port where decode workers fetch KV (`DYN_HTTP_RPC_HOST`).
    pub handoff_host: Option<IpAddr>,
}

/// Where a server of a plane listens, and where others reach it: at `own` if it has an address of its own, else at `host`.
pub fn listen_and_advertise(own: Option<IpAddr>, host: Option<IpAddr>) -> (Option<IpAddr>, IpAddr) {
    if own.is_some() { (None, advertised_host(own)) } else { (host, advertised_host(host)) }
}

/// The address that others reach this machine at: that of the interface with the default route, or loopback if none.
pub fn advertised_host(host: Option<IpAddr>) -> IpAddr {
    // No packet is sent: connecting a datagram socket only chooses the route.
    let routed = || {
        let socket = std::net::UdpSocket::bind(("0.0.0.0", 0)).ok()?;
        socket.connect(("192.0.2.1", 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    host.filter(|host| !host.is_unspecified())
        .or_else(|| routed().filter(|ip| !ip.is_unspecified()))
        .unwrap_or(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST))
}
