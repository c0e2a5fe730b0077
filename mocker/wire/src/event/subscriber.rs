//! Receives events of one topic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::EventError;
use super::envelope::{Envelope, EnvelopeError};
use super::nats::{self, NatsReceiver};
use super::queue::Queue;
use super::zmtp::ZmtpError;
use super::zmtp::subscribe::SubSocket;
use crate::discovery::{ChannelRecord, ChannelTransport};
use crate::runtime::{EventPlane, Runtime};

/// First pause before connecting again; doubled up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent it.
    pub publisher_id: u64,
    /// From 0, one more for each message of the publisher; a gap means that messages were lost.
    pub sequence: u64,
    /// Milliseconds since 1970.
    pub published_at: u64,
    /// The payload in msgpack.
    pub payload: Vec<u8>,
}

/// Receives the messages of one publisher; connects again when the connection breaks. Disconnects when dropped.
///
/// Messages wait in a queue of limited length and size; when it is full the oldest go, which shows as a gap of the
/// sequence numbers.
#[derive(Debug)]
pub struct EventSubscriber {
    shared: Arc<Shared>,
    taken: Vec<Received>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    publisher_id: u64,
    topic: String,
    queue: Queue<Received>,
    dropped: AtomicU64,
}

impl EventSubscriber {
    /// Connects to the channel of a publisher. Over ZMQ this happens behind the scenes: messages published before the
    /// connection stands are not received.
    pub async fn connect(runtime: &Runtime, channel: &ChannelRecord) -> Result<Self, EventError> {
        let shared = Arc::new(Shared {
            publisher_id: channel.instance_id,
            topic: channel.topic.clone(),
            queue: Queue::new(),
            dropped: AtomicU64::new(0),
        });
        let closing = Closing(Arc::clone(&shared));
        let task = match &channel.transport {
            ChannelTransport::Zmq { endpoint } => {
                let address = tcp_address(endpoint)?.to_owned();
                tokio::spawn(async move { receive_zmq(&closing.0, &address).await })
            }
            ChannelTransport::Nats { subject_prefix } => {
                let EventPlane::Nats(server) = &runtime.event_plane else {
                    let reason = "a NATS channel, but this process has no NATS server".to_owned();
                    return Err(EventError::Nats { server: subject_prefix.clone(), reason });
                };
                let messages = nats::subscribe(server, format!("{subject_prefix}.{}", channel.topic)).await?;
                tokio::spawn(async move { receive_nats(&closing.0, messages).await })
            }
        };
        Ok(Self { shared, taken: Vec::new(), task })
    }

    /// The next message; none once closed. May be cancelled.
    pub async fn next(&mut self) -> Option<Received> {
        if !self.shared.queue.wait().await {
            return None;
        }
        self.shared.queue.take(0, &mut self.taken);
        self.taken.pop()
    }

    /// Messages dropped because [`next`](Self::next) was not called often enough.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for EventSubscriber {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Ends the queue when its task ends, however that happens.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.queue.close();
    }
}

impl Shared {
    fn accept(&self, envelope: Result<Envelope<'_>, EnvelopeError>) {
        match envelope {
            Ok(envelope) if envelope.publisher_id == self.publisher_id && envelope.topic == self.topic => {
                let received = Received {
                    publisher_id: envelope.publisher_id,
                    sequence: envelope.sequence,
                    published_at: envelope.published_at,
                    payload: envelope.payload.to_owned(),
                };
                let bytes = received.payload.len() + size_of::<Received>();
                let dropped = self.queue.push(received, bytes);
                if dropped > 0 {
                    self.dropped.fetch_add(dropped, Ordering::Relaxed);
                }
            }
            // All publishers of a topic share a subject, and a subscription matches whatever begins like it.
            Ok(_) => {}
            Err(error) => tracing::warn!(topic = self.topic, %error, "event dropped"),
        }
    }
}

/// `host:port` of `tcp://host:port`.
fn tcp_address(endpoint: &str) -> Result<&str, EventError> {
    endpoint
        .strip_prefix("tcp://")
        .filter(|address| {
            address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        })
        .ok_or_else(|| EventError::Address(endpoint.to_owned()))
}

async fn receive_zmq(shared: &Shared, address: &str) {
    let mut pause = RETRY_MIN;
    loop {
        let ended = receive_connection(shared, address, &mut pause).await;
        let reason = ended.err().map(|error| error.to_string());
        tracing::debug!(address, topic = shared.topic, reason, "event channel disconnected");
        tokio::time::sleep(pause).await;
        pause = RETRY_MAX.min(pause * 2);
    }
}

async fn receive_connection(shared: &Shared, address: &str, pause: &mut Duration) -> Result<(), ZmtpError> {
    let mut socket = SubSocket::connect(address, shared.topic.as_bytes()).await?;
    while let Some(frames) = socket.next().await? {
        // Only a publisher that says something is worth hurrying back to.
        *pause = RETRY_MIN;
        shared.accept(Envelope::decode_frames(&frames));
    }
    Ok(())
}

async fn receive_nats(shared: &Shared, mut messages: NatsReceiver) {
    while let Some(body) = messages.next().await {
        shared.accept(Envelope::decode(&body));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::discovery::{MemStore, Scope};
    use crate::event::zmtp::publish::PubSocket;
    use crate::limits::MAX_QUEUED_EVENTS;
    use crate::runtime::{DiscoveryConfig, RequestPlane};

    const DEADLINE: Duration = Duration::from_secs(10);
    const PUBLISHER: u64 = 5;

    async fn bind(port: u16) -> PubSocket {
        // The port of a socket that was just dropped is free once the task that listened has ended.
        let bound = async {
            loop {
                match PubSocket::bind(Some(Ipv4Addr::LOCALHOST.into()), port, "topic").await {
                    Ok(socket) => return socket,
                    Err(_) => sleep(Duration::from_millis(2)).await,
                }
            }
        };
        timeout(DEADLINE, bound).await.unwrap()
    }

    async fn subscriber(address: SocketAddr) -> EventSubscriber {
        let runtime = Runtime {
            discovery: DiscoveryConfig::Mem(MemStore::default()),
            request_plane: RequestPlane::Tcp,
            event_plane: EventPlane::Zmq,
            host: None,
            port: 0,
            event_host: None,
            handoff_host: None,
        };
        let channel = ChannelRecord {
            scope: Scope::Namespace { namespace: "dynamo".to_owned() },
            topic: "topic".to_owned(),
            instance_id: PUBLISHER,
            transport: ChannelTransport::Zmq { endpoint: format!("tcp://{address}") },
        };
        EventSubscriber::connect(&runtime, &channel).await.unwrap()
    }

    async fn until(what: &str, mut done: impl FnMut() -> bool) {
        let wait = async {
            while !done() {
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("not in time: {what}"));
    }

    fn send(socket: &PubSocket, publisher_id: u64, topic: &str, sequence: u64) {
        let envelope = Envelope { publisher_id, sequence, published_at: 1, topic, payload: b"x" };
        socket.send(&envelope.to_frames());
    }

    async fn next(subscriber: &mut EventSubscriber) -> u64 {
        timeout(DEADLINE, subscriber.next()).await.expect("nothing came").expect("closed").sequence
    }

    #[tokio::test]
    async fn a_publisher_that_comes_back_is_connected_to_again() {
        let socket = bind(0).await;
        let address = socket.address();
        let mut subscriber = subscriber(address).await;
        until("connected", || socket.subscribers() == 1).await;
        send(&socket, PUBLISHER, "topic", 0);
        assert_eq!(next(&mut subscriber).await, 0);
        drop(socket);
        let socket = bind(address.port()).await;
        until("connected again", || socket.subscribers() == 1).await;
        send(&socket, PUBLISHER, "topic", 1);
        assert_eq!(next(&mut subscriber).await, 1);
        drop(subscriber);
        until("disconnected", || socket.queued().is_empty()).await;
    }

    #[tokio::test]
    async fn messages_of_others_and_bad_ones_are_passed_over() {
        let socket = bind(0).await;
        let mut subscriber = subscriber(socket.address()).await;
        until("connected", || socket.subscribers() == 1).await;
        send(&socket, PUBLISHER + 1, "topic", 0);
        send(&socket, PUBLISHER, "topic-other", 1);
        socket.send(&b"\x01\x05topic\x00\x02no".as_slice().into());
        send(&socket, PUBLISHER, "topic", 2);
        assert_eq!(next(&mut subscriber).await, 2);
    }

    #[tokio::test]
    async fn the_oldest_are_lost_when_nobody_takes_them_and_the_gap_shows() {
        let socket = bind(0).await;
        let mut subscriber = subscriber(socket.address()).await;
        until("connected", || socket.subscribers() == 1).await;
        send(&socket, PUBLISHER, "topic", 0);
        assert_eq!(next(&mut subscriber).await, 0);
        let total = 2 * MAX_QUEUED_EVENTS as u64;
        for sequence in 1..=total {
            send(&socket, PUBLISHER, "topic", sequence);
            if sequence % 1000 == 0 {
                until("sent", || socket.queued()[0].0 == 0).await;
            }
        }
        assert_eq!(socket.dropped(), 0);
        until("all received", || subscriber.dropped() == total - MAX_QUEUED_EVENTS as u64).await;
        assert_eq!(subscriber.shared.queue.size().0, MAX_QUEUED_EVENTS);
        assert_eq!(next(&mut subscriber).await, total - MAX_QUEUED_EVENTS as u64 + 1);
    }

    #[test]
    fn only_tcp_addresses_with_a_port_are_taken() {
        assert_eq!(tcp_address("tcp://127.0.0.1:5").unwrap(), "127.0.0.1:5");
        assert_eq!(tcp_address("tcp://[::1]:5").unwrap(), "[::1]:5");
        for bad in ["", "127.0.0.1:5", "ipc:///tmp/x", "tcp://:5", "tcp://host", "tcp://host:70000"] {
            let error = tcp_address(bad).unwrap_err().to_string();
            assert!(error.contains("tcp://HOST:PORT"), "{bad}: {error}");
        }
    }
}
