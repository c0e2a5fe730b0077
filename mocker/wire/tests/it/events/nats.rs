use std::time::Duration;

use dynosim_peers::{Nats, free_port};
use dynosim_wire::EventPlane;
use dynosim_wire::discovery::ChannelTransport;
use dynosim_wire::event::{EventError, EventPublisher, EventSubscriber, KV_METRICS};
use futures_util::StreamExt as _;

use super::{in_time, load, load_of, next, publisher, runtime, scope, until};

fn plane(server: &Nats) -> EventPlane {
    EventPlane::Nats(server.url())
}

async fn subscriber(plane: EventPlane, publisher: &EventPublisher) -> EventSubscriber {
    EventSubscriber::connect(&runtime(plane), &publisher.record()).await.unwrap()
}

#[tokio::test]
async fn events_go_to_the_subject_of_the_scope_and_each_subscriber_hears_its_publisher() {
    let Some(server) = Nats::start() else { return };
    let (first, second) = (publisher(plane(&server)).await, publisher(plane(&server)).await);
    let prefix = "namespace.dynamo.component.backend.endpoint.generate";
    assert_eq!(first.record().scope, scope());
    assert_eq!(first.record().transport, ChannelTransport::Nats { subject_prefix: prefix.to_owned() });
    let client = async_nats::connect(server.url()).await.unwrap();
    let mut all = client.subscribe(">").await.unwrap();
    client.publish("probe", "".into()).await.unwrap();
    assert_eq!(in_time("subscription", all.next()).await.unwrap().subject.as_str(), "probe");
    let mut subscriber = subscriber(plane(&server), &second).await;
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
    let Some(mut server) = Nats::start() else { return };
    let publisher = publisher(plane(&server)).await;
    let mut subscriber = subscriber(plane(&server), &publisher).await;
    publisher.publish(&load(0)).unwrap();
    assert_eq!(next(&mut subscriber).await.sequence, 0);
    server.kill();
    (1..=30_000).for_each(|blocks| publisher.publish(&load(blocks)).unwrap());
    until("drops", || publisher.dropped() > 10_000).await;
    server.resume();
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
    let server = format!("nats://127.0.0.1:{}", free_port());
    let started = EventPublisher::start(&runtime(EventPlane::Nats(server.clone())), scope(), KV_METRICS).await;
    let Err(EventError::Nats { server: named, .. }) = started else { panic!("{started:?}") };
    assert_eq!(named, server);
}
