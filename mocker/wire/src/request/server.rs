//! A worker's side.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::codec::{Codec, CodecError};
use crate::discovery::{EndpointRecord, Transport};
use crate::endpoint::EndpointId;
use crate::request::registry::Registry;
use crate::request::{nats, tcp};
use crate::response::Responder;
use crate::runtime::{RequestPlane, Runtime};

/// What workers of the release say that they run on, whatever there is.
const DEVICE_TYPE: &str = "cuda";

/// A server that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The port.
    #[error("request plane on {address}: {source}")]
    Bind {
        /// Where.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// The NATS server.
    #[error("NATS {server}: {reason}")]
    Nats {
        /// Which.
        server: String,
        /// Why.
        reason: String,
    },
}

/// A request that has come in.
#[derive(Debug)]
pub struct Call {
    /// Its id (`x-request-id` or the control message's).
    pub id: String,
    /// Encoding of the body and of the answer.
    pub codec: Codec,
    /// The request.
    pub body: Bytes,
    /// Where the answer goes.
    pub responder: Responder,
}

impl Call {
    /// The request, read.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        self.codec.decode(&self.body)
    }
}

/// Serves an endpoint.
pub trait Handler: Send + Sync {
    /// Takes a request; must not block. Whatever takes time is spawned.
    fn handle(&self, call: Call);
}

impl<F: Fn(Call) + Send + Sync> Handler for F {
    fn handle(&self, call: Call) {
        self(call);
    }
}

/// Takes requests for the endpoints of one or several instances, over TCP or NATS. Clones share it; when the last one
/// goes, it stops.
#[derive(Clone, Debug)]
pub struct RequestServer {
    registry: Registry,
    way: Way,
    stop: CancellationToken,
    _guard: Arc<DropGuard>,
}

/// How requests come in.
#[derive(Clone, Debug)]
enum Way {
    /// At this address.
    Tcp(SocketAddr),
    Nats(nats::Subscriptions),
}

impl RequestServer {
    /// Listens, or connects to NATS.
    pub async fn start(runtime: &Runtime) -> Result<Self, ServerError> {
        let registry = Registry::default();
        let stop = CancellationToken::new();
        let way = match &runtime.request_plane {
            RequestPlane::Tcp => Way::Tcp(tcp::start(runtime, registry.clone(), stop.clone())?),
            RequestPlane::Nats(server) => Way::Nats(nats::Subscriptions::new(nats::connect(server).await?)),
        };
        let guard = Arc::new(stop.clone().drop_guard());
        Ok(Self { registry, way, stop, _guard: guard })
    }

    /// Serves an endpoint of an instance from now on; what comes back belongs in discovery.
    pub async fn serve(
        &self,
        endpoint: &EndpointId,
        instance_id: u64,
        handler: Arc<dyn Handler>,
    ) -> Result<EndpointRecord, ServerError> {
        let path = path(endpoint, instance_id);
        let transport = match &self.way {
            Way::Tcp(address) => Transport::Tcp(format!("{address}/{path}")),
            Way::Nats(subscriptions) => {
                let subject = nats::subject(endpoint, instance_id);
                subscriptions.serve(&subject, &path, self.registry.clone(), self.stop.child_token()).await?;
                Transport::NatsTcp(subject)
            }
        };
        self.registry.insert(path, handler);
        let EndpointId { namespace, component, name: endpoint } = endpoint.clone();
        let device_type = Some(DEVICE_TYPE.to_owned());
        let request_plane_codec = Codec::MessagePack;
        Ok(EndpointRecord { component, endpoint, namespace, instance_id, transport, device_type, request_plane_codec })
    }

    /// Refuses further requests for an endpoint of an instance (frontends try another worker); those that run go on.
    pub async fn remove(&self, endpoint: &EndpointId, instance_id: u64) {
        self.registry.remove(&path(endpoint, instance_id));
        if let Way::Nats(subscriptions) = &self.way {
            subscriptions.remove(&nats::subject(endpoint, instance_id));
        }
    }

    /// Stops listening and closes all request connections; response streams that run go on.
    pub async fn close(&self) {
        self.registry.clear();
        self.stop.cancel();
    }
}

/// What a server with several instances finds an endpoint by.
fn path(endpoint: &EndpointId, instance_id: u64) -> String {
    format!("{instance_id:x}/{}", endpoint.path())
}
