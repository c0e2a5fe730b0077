//! The request and response planes.

mod endings;
mod nats;
mod peers;
mod round_trip;
mod throughput;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use dynosim_wire::discovery::{EndpointRecord, MemStore};
use dynosim_wire::protocol::EngineOutput;
use dynosim_wire::request::{Call, Handler, RequestClient, RequestServer};
use dynosim_wire::response::{ResponseSink, ResponseStream, StreamError};
use dynosim_wire::{DiscoveryConfig, EndpointId, EventPlane, RequestPlane, Runtime};

/// Longer than anything takes that works.
const DEADLINE: Duration = Duration::from_secs(10);
const INSTANCE: u64 = 0x1234_abcd;

fn runtime(request_plane: RequestPlane) -> Runtime {
    Runtime {
        discovery: DiscoveryConfig::Mem(MemStore::default()),
        request_plane,
        event_plane: EventPlane::Zmq,
        host: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        port: 0,
        event_host: None,
        handoff_host: None,
    }
}

fn endpoint() -> EndpointId {
    EndpointId::new("dynamo", "backend", "generate")
}

/// A server with one endpoint, a client, and what is in discovery.
struct Pair {
    server: RequestServer,
    client: RequestClient,
    record: EndpointRecord,
}

impl Pair {
    async fn new(plane: RequestPlane, handler: impl Handler + 'static) -> Self {
        let server = RequestServer::start(&runtime(plane.clone())).await.unwrap();
        let record = server.serve(&endpoint(), INSTANCE, Arc::new(handler)).await.unwrap();
        let client = RequestClient::start(&runtime(plane)).await.unwrap();
        Self { server, client, record }
    }

    async fn tcp(handler: impl Handler + 'static) -> Self {
        Self::new(RequestPlane::Tcp, handler).await
    }
}

/// Answers every call in a task of its own.
fn answering<F, R>(answer: F) -> impl Handler
where
    F: Fn(Call) -> R + Send + Sync,
    R: Future<Output = ()> + Send + 'static,
{
    move |call: Call| {
        tokio::spawn(answer(call));
    }
}

async fn all_tokens(stream: &mut ResponseStream<EngineOutput>) -> Result<Vec<u32>, StreamError> {
    let mut tokens = Vec::new();
    while let Some(item) = stream.next().await? {
        tokens.extend(item.data.unwrap().token_ids);
    }
    Ok(tokens)
}

/// Waits until something is so.
async fn until<T>(deadline: Duration, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = check().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(deadline, waiting).await.expect("it did not come to pass in time")
}

async fn send_tokens(sink: &mut ResponseSink, tokens: std::ops::Range<u32>) {
    for token in tokens {
        sink.push_tokens(&[token]);
    }
    sink.flush().await.unwrap();
}
