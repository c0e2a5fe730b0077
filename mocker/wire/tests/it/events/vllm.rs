use std::net::{IpAddr, Ipv4Addr};

use dynosim_wire::event::{VllmEvent, VllmPublisher};

use super::peer::{COMMAND, MORE, Peer};
use super::{in_time, until};

const LOCAL: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
const END: [u8; 8] = [0xff; 8];

async fn publisher() -> VllmPublisher {
    VllmPublisher::start(LOCAL, 0, Some(0), 3).await.unwrap()
}

fn removed(hash: u64) -> [VllmEvent; 1] {
    [VllmEvent::Removed { block_hashes: vec![hash] }]
}

async fn ask(peer: &mut Peer, start: u64) {
    peer.send(MORE, b"").await;
    peer.send(0, &start.to_be_bytes()).await;
}

#[tokio::test]
async fn batches_come_with_their_numbers_and_can_be_had_again() {
    let publisher = publisher().await;
    publisher.publish(&removed(0));
    let mut sub = Peer::ready(publisher.port(), "SUB", 1).await;
    sub.send(COMMAND, b"\x09SUBSCRIBE").await;
    until("subscribed", || publisher.subscribers() == 1).await;
    (1..5).for_each(|hash| publisher.publish(&removed(hash)));
    let mut told = Vec::new();
    for number in 1u64..5 {
        let [topic, sequence, payload] = &sub.message().await[..] else { panic!("not three frames") };
        assert_eq!((&topic[..], &sequence[..]), (&b""[..], &number.to_be_bytes()[..]));
        assert_eq!((payload[0], payload.last()), (0x93, Some(&3)), "an array of three that ends with the rank");
        told.push(payload.clone());
    }
    for (role, minor) in [("DEALER", 0), ("REQ", 1)] {
        let mut client = Peer::ready(publisher.replay_port().unwrap(), role, minor).await;
        for start in [3u64, 0, 1000] {
            ask(&mut client, start).await;
            for number in start..5 {
                let frames = client.message().await;
                assert_eq!(frames[..3], [&b""[..], b"", &number.to_be_bytes()]);
                if number > 0 {
                    assert_eq!(frames[3], told[number as usize - 1], "the same as was published");
                }
            }
            assert_eq!(client.message().await, [&b""[..], b"", &END, b""]);
        }
    }
}

#[tokio::test]
async fn requests_that_name_no_batch_are_passed_over() {
    let publisher = publisher().await;
    publisher.publish(&removed(1));
    let mut client = Peer::ready(publisher.replay_port().unwrap(), "DEALER", 1).await;
    client.send(0, &0u64.to_be_bytes()).await;
    client.send(MORE, b"").await;
    client.send(0, b"x").await;
    client.ping().await;
    ask(&mut client, 1).await;
    assert_eq!(client.message().await, [&b""[..], b"", &END, b""]);
}

#[tokio::test]
async fn a_client_that_stops_reading_holds_nobody_up() {
    let publisher = publisher().await;
    let tokens = VllmEvent::Stored {
        block_hashes: vec![1],
        parent_block_hash: None,
        token_ids: vec![70_000; 4096],
        block_size: 4096,
    };
    (0..1500).for_each(|_| publisher.publish(std::slice::from_ref(&tokens)));
    let port = publisher.replay_port().unwrap();
    let mut stalled = Peer::ready(port, "DEALER", 1).await;
    for _ in 0..100 {
        ask(&mut stalled, 0).await;
    }
    let mut client = Peer::ready(port, "DEALER", 1).await;
    ask(&mut client, 500).await;
    in_time("replay", async {
        for number in 500u64..1500 {
            assert_eq!(client.message().await[2], number.to_be_bytes());
        }
    })
    .await;
    assert_eq!(client.message().await[2], END);
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_that_names_it() {
    let first = publisher().await;
    let error = VllmPublisher::start(LOCAL, 0, first.replay_port(), 0).await.unwrap_err().to_string();
    assert!(error.contains(&format!("127.0.0.1:{}", first.replay_port().unwrap())), "{error}");
}
