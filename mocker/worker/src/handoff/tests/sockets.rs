//! The same over TCP.

use std::net::{IpAddr, Ipv4Addr};

use dynosim_wire::protocol::BootstrapInfo;
use tokio::task::JoinSet;

use super::*;
use crate::handoff::HandoffListener;

const LOOPBACK: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));

fn quick(engine: EngineType) -> Terms {
    Terms::new(engine, KvTransfer::default()).unwrap()
}

fn at(listener: &HandoffListener, number: u128) -> Meeting {
    Meeting { port: listener.port(), ..meeting(number) }
}

/// Until the listener has forgotten all, with a generous limit.
async fn settled(listener: &HandoffListener) {
    for _ in 0..1000 {
        if listener.current() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} handoffs are left", listener.current());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_handoffs_at_once_all_end_well() {
    for engine in [EngineType::Vllm, EngineType::Sglang] {
        let listener = HandoffListener::bind(LOOPBACK, 0, quick(engine)).unwrap();
        let mut all = JoinSet::new();
        for number in 0..1000 {
            let meeting = at(&listener, number);
            all.spawn(async move { decode(DestinationSession::dial(&meeting, &quick(engine), 0).await?).await });
            let expected = listener.expect(identity(number)).unwrap();
            all.spawn(async move { prefill(expected.meet().await?).await });
        }
        while let Some(ended) = all.join_next().await {
            ended.unwrap().unwrap();
        }
        settled(&listener).await;
    }
}

#[tokio::test]
async fn the_death_of_either_side_is_seen_within_a_second() {
    let listener = HandoffListener::bind(LOOPBACK, 0, quick(EngineType::Vllm)).unwrap();
    let pair = async |number| {
        let meeting = at(&listener, number);
        let terms = quick(EngineType::Vllm);
        let destination = DestinationSession::dial(&meeting, &terms, 0);
        let source = listener.expect(identity(number)).unwrap().meet();
        let (source, destination) = tokio::join!(source, destination);
        (source.unwrap(), destination.unwrap())
    };
    let second = Duration::from_secs(1);
    let (mut source, destination) = pair(1).await;
    drop(destination);
    let ended = tokio::time::timeout(second, source.during(std::future::pending::<()>())).await.unwrap();
    assert!(matches!(ended, Err(HandoffError::Closed)), "{ended:?}");
    drop(source);
    let (source, mut destination) = pair(2).await;
    drop(source);
    let ended = tokio::time::timeout(second, destination.asked_to_reserve()).await.unwrap();
    assert!(matches!(ended, Err(HandoffError::Aborted(_))), "{ended:?}");
    settled(&listener).await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let listener = HandoffListener::bind(LOOPBACK, 0, quick(EngineType::Vllm)).unwrap();
    let error = HandoffListener::bind(LOOPBACK, listener.port(), quick(EngineType::Vllm)).unwrap_err();
    assert!(error.to_string().contains(&listener.port().to_string()), "{error}");
    let port = listener.port();
    drop(listener);
    // It is free again, once the task has ended.
    for _ in 0..1000 {
        if HandoffListener::bind(LOOPBACK, port, quick(EngineType::Vllm)).is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the port is still taken");
}

#[tokio::test]
async fn nobody_at_the_port_is_an_error_with_the_address() {
    let listener = HandoffListener::bind(LOOPBACK, 0, quick(EngineType::Vllm)).unwrap();
    let meeting = at(&listener, 1);
    drop(listener);
    for _ in 0..1000 {
        let dialled = DestinationSession::dial(&meeting, &quick(EngineType::Vllm), 0).await;
        if let Err(error @ HandoffError::Connect { .. }) = dialled {
            assert!(error.to_string().contains(&format!("127.0.0.1:{}", meeting.port)), "{error}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("somebody is there");
}

#[tokio::test]
async fn the_card_names_the_host_that_was_given_and_the_port() {
    let listener = HandoffListener::bind(LOOPBACK, 0, quick(EngineType::Vllm)).unwrap();
    let endpoint = listener.endpoint();
    assert_eq!(endpoint.bootstrap_host.as_deref(), Some("127.0.0.1"));
    assert_eq!(endpoint.bootstrap_port, Some(listener.port()));
}

#[test]
fn a_meeting_needs_names_that_peers_can_read() {
    let handoff_id = Some(Uuid::from_u128(1));
    let info = BootstrapInfo { bootstrap_host: "h".into(), bootstrap_port: 5, bootstrap_room: 7, handoff_id };
    let meeting = Meeting::new(&info, "00000000-0000-0000-0000-000000000002").unwrap();
    assert_eq!(meeting.identity, identity(1));
    assert!(matches!(Meeting::new(&info, "mine"), Err(HandoffError::RequestId(id)) if id == "mine"));
    let nameless = BootstrapInfo { handoff_id: None, ..info };
    assert!(matches!(Meeting::new(&nameless, "00000000-0000-0000-0000-000000000002"), Err(HandoffError::NoHandoffId)));
    assert!(matches!(Terms::new(EngineType::Trtllm, KvTransfer::default()), Err(HandoffError::Engine)));
}
