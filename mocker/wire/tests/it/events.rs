//! The event plane.

mod nats;
mod peer;
mod vllm;
mod wheel;
mod zmq;

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use dynosim_wire::discovery::{MemStore, Scope};
use dynosim_wire::event::{EventPublisher, EventSubscriber, KV_METRICS, KvMetrics, Received};
use dynosim_wire::{Codec, DiscoveryConfig, EndpointId, EventPlane, RequestPlane, Runtime};
use tokio::time::{sleep, timeout};

/// Longer than anything takes that works.
const DEADLINE: Duration = Duration::from_secs(10);

fn runtime(event_plane: EventPlane) -> Runtime {
    Runtime {
        discovery: DiscoveryConfig::Mem(MemStore::default()),
        request_plane: RequestPlane::Tcp,
        event_plane,
        host: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        port: 0,
        event_host: None,
        handoff_host: None,
    }
}

fn endpoint() -> EndpointId {
    EndpointId::new("dynamo", "backend", "generate")
}

fn scope() -> Scope {
    Scope::Endpoint { endpoint: endpoint() }
}

async fn publisher(plane: EventPlane) -> EventPublisher {
    EventPublisher::start(&runtime(plane), scope(), KV_METRICS).await.unwrap()
}

fn load(blocks: u64) -> KvMetrics {
    KvMetrics { worker_id: 7, kv_used_blocks: Some(blocks), ..KvMetrics::default() }
}

async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(DEADLINE, work).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let wait = async {
        while !done() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    in_time(what, wait).await;
}

async fn next(subscriber: &mut EventSubscriber) -> Received {
    in_time("an event", subscriber.next()).await.expect("closed")
}

fn load_of(received: &Received) -> u64 {
    Codec::MessagePack.decode::<KvMetrics>(&received.payload).unwrap().kv_used_blocks.unwrap()
}
