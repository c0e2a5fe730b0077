use dynosim_wire::EventPlane;
use dynosim_wire::discovery::{ChannelRecord, ChannelTransport};
use dynosim_wire::event::{EventError, EventPublisher, EventSubscriber, KV_METRICS};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::peer::{COMMAND, LONG, MORE, Peer};
use super::{in_time, load, load_of, next, publisher, runtime, scope, until};

fn port(record: &ChannelRecord) -> u16 {
    let ChannelTransport::Zmq { endpoint } = &record.transport else { panic!("{record:?}") };
    endpoint.strip_prefix("tcp://127.0.0.1:").unwrap().parse().unwrap()
}

async fn connected(publisher: &EventPublisher) -> EventSubscriber {
    let subscriber = EventSubscriber::connect(&runtime(EventPlane::Zmq), &publisher.record()).await.unwrap();
    until("subscribed", || publisher.subscribers() == Some(1)).await;
    subscriber
}

#[tokio::test]
async fn events_published_from_any_thread_arrive_in_order() {
    let publisher = publisher(EventPlane::Zmq).await;
    let record = publisher.record();
    assert_eq!((record.scope, &*record.topic, record.instance_id), (scope(), KV_METRICS, publisher.publisher_id()));
    assert!(record.instance_id < 1 << 53);
    (0..3).for_each(|blocks| publisher.publish(&load(blocks)).unwrap());
    let mut subscriber = connected(&publisher).await;
    let sending = publisher.clone();
    std::thread::spawn(move || (3..1003).for_each(|blocks| sending.publish(&load(blocks)).unwrap())).join().unwrap();
    for expected in 3..1003 {
        let received = next(&mut subscriber).await;
        assert_eq!(received.sequence, expected, "messages that nobody heard were counted");
        assert_eq!((load_of(&received), received.publisher_id), (expected, publisher.publisher_id()));
        assert!(received.published_at > 1_700_000_000_000);
    }
    assert_eq!((publisher.dropped(), subscriber.dropped()), (0, 0));
}

#[tokio::test]
async fn peers_of_either_version_subscribe_and_get_four_frames() {
    let publisher = publisher(EventPlane::Zmq).await;
    for minor in [0, 1] {
        let mut peer = Peer::ready(port(&publisher.record()), "SUB", minor).await;
        match minor {
            0 => peer.send(0, b"\x01kv_").await,
            _ => peer.send(COMMAND, b"\x09SUBSCRIBEkv_").await,
        }
        peer.ping().await;
        publisher.publish(&load(5)).unwrap();
        let frames = peer.message().await;
        let sequence = u64::from(minor).to_be_bytes();
        assert_eq!(frames[..3], [KV_METRICS.as_bytes(), &publisher.publisher_id().to_be_bytes(), &sequence]);
        assert_eq!((frames.len(), frames[3][0]), (4, 1));
        assert_eq!(frames[3][1..5], (frames[3].len() as u32 - 5).to_be_bytes());
        match minor {
            0 => peer.send(0, b"\x00kv_").await,
            _ => peer.send(COMMAND, b"\x06CANCELkv_").await,
        }
        until("cancelled", || publisher.subscribers() == Some(0)).await;
    }
}

#[tokio::test]
async fn nothing_is_sent_to_those_who_want_another_topic() {
    let publisher = publisher(EventPlane::Zmq).await;
    let mut peer = Peer::ready(port(&publisher.record()), "XSUB", 0).await;
    peer.send(0, b"\x01kv_metrics_of_others").await;
    peer.send(MORE, b"\x01").await;
    peer.send(0, b"only the first frame counts").await;
    peer.send(0, b"\x00").await;
    peer.ping().await;
    assert_eq!(publisher.subscribers(), Some(0));
    publisher.publish(&load(5)).unwrap();
    peer.ping().await;
    peer.ping().await;
}

#[tokio::test]
async fn strangers_are_turned_away_and_hold_nobody_up() {
    let publisher = publisher(EventPlane::Zmq).await;
    let port = port(&publisher.record());
    let mut http = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    http.write_all(&[b'G'; 64]).await.unwrap();
    in_time("closed", http.read_to_end(&mut Vec::new())).await.ok();
    for role in ["PUSH", "PUB", "DEALER"] {
        let mut peer = Peer::connect(port, role, 1).await;
        while peer.frame().await.is_some() {}
    }
    let said: [(u8, &[u8]); 5] = [
        (LONG, &[1; 5000]),
        (COMMAND | MORE, b"\x05OTHER"),
        (0x40, b"x"),
        (COMMAND, b"\x7fSUBSCRIBE"),
        (COMMAND, b"\x05ERROR\x03bye"),
    ];
    for (flags, body) in said {
        let mut peer = Peer::ready(port, "SUB", 1).await;
        peer.send(flags, body).await;
        assert_eq!(peer.frame().await, None, "{flags:#x}");
    }
    let silent = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut subscriber = connected(&publisher).await;
    publisher.publish(&load(1)).unwrap();
    assert_eq!(load_of(&next(&mut subscriber).await), 1);
    drop(silent);
}

#[tokio::test]
async fn a_payload_that_no_subscriber_would_take_is_an_error_and_no_gap() {
    let publisher = publisher(EventPlane::Zmq).await;
    let mut subscriber = connected(&publisher).await;
    let error = publisher.publish(&"x".repeat(16 * 1024 * 1024)).unwrap_err();
    assert!(matches!(error, EventError::TooLarge { .. }), "{error}");
    let large = "x".repeat(15 * 1024 * 1024);
    publisher.publish(&large).unwrap();
    let received = next(&mut subscriber).await;
    assert_eq!(received.sequence, 0);
    assert!(received.payload.ends_with(large.as_bytes()));
}
