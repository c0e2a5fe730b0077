use std::path::{Path, PathBuf};
use std::time::Duration;

use dynosim_wire::EventPlane;
use dynosim_wire::discovery::ChannelTransport;
use dynosim_wire::event::{EventError, EventPublisher, EventSubscriber, KV_METRICS};
use futures_util::StreamExt as _;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::process::{self, Process};
use super::{in_time, load, load_of, next, publisher, runtime, scope, until};

/// A server whose port stays the same when it is started again.
struct Server {
    program: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
}

impl Server {
    fn find() -> Option<Self> {
        let program = process::nats_server()?;
        Some(Self { program, folder: tempfile::tempdir().unwrap(), port: process::free_port() })
    }

    async fn start(&self) -> Process {
        let port = self.port.to_string();
        let process =
            Process::start(&self.program, Path::new(self.folder.path()), &["-a", "127.0.0.1", "-p", &port], &[]);
        in_time("nats-server", async {
            while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        process
    }

    fn plane(&self) -> EventPlane {
        EventPlane::Nats(format!("nats://127.0.0.1:{}", self.port))
    }
}

async fn subscriber(plane: EventPlane, publisher: &EventPublisher) -> EventSubscriber {
    EventSubscriber::connect(&runtime(plane), &publisher.record()).await.unwrap()
}

#[tokio::test]
async fn events_go_to_the_subject_of_the_scope_and_each_subscriber_hears_its_publisher() {
    let Some(server) = Server::find() else { return };
    let _process = server.start().await;
    let (first, second) = (publisher(server.plane()).await, publisher(server.plane()).await);
    let prefix = "namespace.dynamo.component.backend.endpoint.generate";
    assert_eq!(first.record().scope, scope());
    assert_eq!(first.record().transport, ChannelTransport::Nats { subject_prefix: prefix.to_owned() });
    let client = async_nats::connect(format!("127.0.0.1:{}", server.port)).await.unwrap();
    let mut all = client.subscribe(">").await.unwrap();
    client.publish("probe", "".into()).await.unwrap();
    assert_eq!(in_time("subscription", all.next()).await.unwrap().subject.as_str(), "probe");
    let mut subscriber = subscriber(server.plane(), &second).await;
    first.publish(&load(1)).unwrap();
    second.publish(&load(2)).unwrap();
    let received = next(&mut subscriber).await;
    assert_eq!((load_of(&received), received.publisher_id, received.sequence), (2, second.publisher_id(), 0));
    let message = in_time("raw message", async {
        loop {
            let message = all.next().await.unwrap();
            if message.subject.starts_with("namespace.") {
                return message;
            }
        }
    })
    .await;
    assert_eq!(message.subject.as_str(), format!("{prefix}.{KV_METRICS}"));
    assert!(message.payload.starts_with(b"\x85\xacpublisher_id") && message.headers.is_none());
}

#[tokio::test]
async fn a_server_that_was_gone_is_found_again_and_what_was_too_much_is_dropped() {
    let Some(server) = Server::find() else { return };
    let process = server.start().await;
    let publisher = publisher(server.plane()).await;
    let mut subscriber = subscriber(server.plane(), &publisher).await;
    publisher.publish(&load(0)).unwrap();
    assert_eq!(next(&mut subscriber).await.sequence, 0);
    drop(process);
    in_time("the server to go", async {
        while TcpStream::connect(("127.0.0.1", server.port)).await.is_ok() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    (1..=30_000).for_each(|blocks| publisher.publish(&load(blocks)).unwrap());
    until("drops", || publisher.dropped() > 10_000).await;
    let _process = server.start().await;
    let mut last = 0;
    in_time("events again", async {
        while last <= 30_000 {
            publisher.publish(&load(30_001)).unwrap();
            if let Ok(Some(received)) = tokio::time::timeout(Duration::from_millis(20), subscriber.next()).await {
                assert!(received.sequence > last, "in order");
                last = received.sequence;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_that_names_it() {
    let server = format!("nats://127.0.0.1:{}", process::free_port());
    let started = EventPublisher::start(&runtime(EventPlane::Nats(server.clone())), scope(), KV_METRICS).await;
    let Err(EventError::Nats { server: named, .. }) = started else { panic!("{started:?}") };
    assert_eq!(named, server);
}
