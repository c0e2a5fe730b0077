//! PUB: sends messages of one topic to all who subscribed to it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;

use super::ZmtpError;
use super::command::{self, Command};
use super::connection::{self, Incoming, Intake, Reader, Role};
use super::listen::Listener;
use crate::event::queue::Queue;

/// Bytes that are gathered into one write.
const WRITE_BYTES: usize = 64 * 1024;
/// Subscriptions of one peer.
const MAX_SUBSCRIPTIONS: usize = 1024;
/// What subscribers say: topics.
const INTAKE: Intake = Intake { limit: 4096, chunk: 512 };

/// A PUB socket whose messages all begin with the same topic; closed when dropped.
#[derive(Debug)]
pub(crate) struct PubSocket {
    shared: Arc<Shared>,
    listener: Listener,
}

#[derive(Debug)]
struct Shared {
    topic: Bytes,
    peers: Mutex<Vec<Arc<Peer>>>,
    dropped: AtomicU64,
}

/// A connected subscriber.
#[derive(Debug)]
struct Peer {
    /// It subscribed to the topic, or to a beginning of it.
    subscribed: AtomicBool,
    queue: Queue<Bytes>,
}

impl PubSocket {
    pub(crate) async fn bind(host: Option<IpAddr>, port: u16, topic: &str) -> io::Result<Self> {
        let topic = Bytes::copy_from_slice(topic.as_bytes());
        let shared = Arc::new(Shared { topic, peers: Mutex::default(), dropped: AtomicU64::new(0) });
        let for_peers = Arc::clone(&shared);
        let listener = Listener::bind(host, port, move |stream| serve(stream, Arc::clone(&for_peers))).await?;
        Ok(Self { shared, listener })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Somebody would get a message sent now.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.shared.peers().iter().any(|peer| peer.subscribed.load(Ordering::Relaxed))
    }

    /// Queues a message, as it goes over the wire, for each subscriber.
    pub(crate) fn send(&self, message: &Bytes) {
        let mut dropped = 0;
        for peer in self.shared.peers().iter().filter(|peer| peer.subscribed.load(Ordering::Relaxed)) {
            dropped += peer.queue.push(message.clone(), message.len());
        }
        if dropped > 0 {
            self.shared.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }

    /// Connected peers that subscribed to the topic.
    pub(crate) fn subscribers(&self) -> usize {
        self.shared.peers().iter().filter(|peer| peer.subscribed.load(Ordering::Relaxed)).count()
    }

    /// Messages dropped because a subscriber did not read.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Messages and bytes queued for each subscriber.
    #[cfg(test)]
    pub(crate) fn queued(&self) -> Vec<(usize, usize)> {
        self.shared.peers().iter().map(|peer| peer.queue.size()).collect()
    }
}

impl Drop for PubSocket {
    fn drop(&mut self) {
        for peer in self.shared.peers().iter() {
            peer.queue.close();
        }
    }
}

impl Shared {
    fn peers(&self) -> MutexGuard<'_, Vec<Arc<Peer>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the list of peers; given up when dropped.
struct Membership {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.shared.peers().retain(|peer| !Arc::ptr_eq(peer, &self.peer));
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) -> Result<(), ZmtpError> {
    let (reader, writer, _) = connection::open(stream, Role::Pub, INTAKE).await?;
    let peer = Arc::new(Peer { subscribed: AtomicBool::new(false), queue: Queue::new() });
    shared.peers().push(Arc::clone(&peer));
    let member = Membership { shared, peer };
    tokio::select! {
        ended = listen_to(reader, &member) => ended,
        ended = write_to(writer, &member.peer.queue) => ended,
    }
}

/// Follows what the peer subscribes to.
async fn listen_to(mut reader: Reader, member: &Membership) -> Result<(), ZmtpError> {
    let mut topics: Vec<Box<[u8]>> = Vec::new();
    while let Some(incoming) = reader.next().await? {
        match &incoming {
            Incoming::Message(parts) => match parts.first().and_then(|part| part.split_first()) {
                Some((1, topic)) => subscribe(&mut topics, topic)?,
                Some((0, topic)) => cancel(&mut topics, topic),
                _ => {}
            },
            Incoming::Command(body) => match command::parse(body)? {
                Command::Subscribe(topic) => subscribe(&mut topics, topic)?,
                Command::Cancel(topic) => cancel(&mut topics, topic),
                Command::Ping { context } => member.peer.queue.push_urgent(command::pong(context)),
                Command::Error { reason } => {
                    return Err(ZmtpError::Refused(String::from_utf8_lossy(reason).into_owned()));
                }
                Command::Ready { .. } | Command::Other => {}
            },
        }
        let subscribed = topics.iter().any(|prefix| member.shared.topic.starts_with(prefix));
        member.peer.subscribed.store(subscribed, Ordering::Relaxed);
    }
    Ok(())
}

/// A topic that was subscribed to twice must be cancelled twice.
fn subscribe(topics: &mut Vec<Box<[u8]>>, topic: &[u8]) -> Result<(), ZmtpError> {
    if topics.len() == MAX_SUBSCRIPTIONS {
        return Err(ZmtpError::TooManySubscriptions(MAX_SUBSCRIPTIONS));
    }
    topics.push(topic.into());
    Ok(())
}

fn cancel(topics: &mut Vec<Box<[u8]>>, topic: &[u8]) {
    if let Some(place) = topics.iter().position(|known| **known == *topic) {
        topics.swap_remove(place);
    }
}

/// Writes what is queued, many messages at once; ends when the queue is closed and empty.
async fn write_to(mut writer: OwnedWriteHalf, queue: &Queue<Bytes>) -> Result<(), ZmtpError> {
    let (mut messages, mut buffer) = (Vec::new(), Vec::new());
    while queue.wait().await {
        queue.take(WRITE_BYTES, &mut messages);
        for message in messages.drain(..) {
            buffer.extend_from_slice(&message);
        }
        writer.write_all(&buffer).await?;
        buffer.clear();
        buffer.shrink_to(WRITE_BYTES);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::event::queue::MAX_QUEUED_BYTES;
    use crate::event::zmtp::frame::{self, Kind};
    use crate::event::zmtp::subscribe::SubSocket;
    use crate::limits::{MAX_QUEUED_EVENTS, MAX_SUBSCRIBERS};

    const DEADLINE: Duration = Duration::from_secs(10);

    async fn until(what: &str, mut done: impl FnMut() -> bool) {
        let wait = async {
            while !done() {
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("not in time: {what}"));
    }

    async fn socket() -> (PubSocket, String) {
        let socket = PubSocket::bind(Some(Ipv4Addr::LOCALHOST.into()), 0, "topic").await.unwrap();
        let address = socket.address().to_string();
        (socket, address)
    }

    fn message(bytes: usize) -> Bytes {
        let mut out = Vec::new();
        frame::put(Kind::Part, b"topic", &mut out);
        frame::put(Kind::LastPart, &vec![7; bytes], &mut out);
        out.into()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_subscriber_that_never_reads_does_not_make_memory_grow() {
        let (socket, address) = socket().await;
        let stalled = SubSocket::connect(&address, b"topic").await.unwrap();
        let reading = SubSocket::connect(&address, b"top").await.unwrap();
        let reader = tokio::spawn(read_all(reading));
        until("two subscribers", || socket.subscribers() == 2).await;
        for _ in 0..300_000 {
            socket.send(&message(4096));
        }
        for (messages, bytes) in socket.queued() {
            assert!(messages <= MAX_QUEUED_EVENTS && bytes <= MAX_QUEUED_BYTES, "{messages} messages, {bytes} bytes");
        }
        assert!(socket.dropped() > 250_000, "{} dropped", socket.dropped());
        until("the other subscriber has read all that was left", || {
            socket.queued().iter().filter(|queue| queue.0 == 0).count() == 1
        })
        .await;
        drop(socket);
        assert!(timeout(DEADLINE, reader).await.unwrap().unwrap() > 1000);
        drop(stalled);
    }

    async fn read_all(mut socket: SubSocket) -> usize {
        let mut count = 0;
        while let Ok(Some(_)) = socket.next().await {
            count += 1;
        }
        count
    }

    #[tokio::test]
    async fn queued_messages_are_written_before_a_socket_is_closed() {
        let (socket, address) = socket().await;
        let reading = SubSocket::connect(&address, b"").await.unwrap();
        until("a subscriber", || socket.subscribers() == 1).await;
        for _ in 0..1000 {
            socket.send(&message(100));
        }
        drop(socket);
        assert_eq!(timeout(DEADLINE, read_all(reading)).await.unwrap(), 1000);
    }

    #[tokio::test]
    async fn subscribers_that_vanish_are_forgotten_and_too_many_are_refused() {
        let (socket, address) = socket().await;
        let mut subscribers = Vec::new();
        for _ in 0..MAX_SUBSCRIBERS {
            subscribers.push(SubSocket::connect(&address, b"").await.unwrap());
        }
        until("all subscribed", || socket.subscribers() == MAX_SUBSCRIBERS).await;
        assert!(SubSocket::connect(&address, b"").await.is_err(), "one too many");
        subscribers.truncate(3);
        until("the others forgotten", || socket.queued().len() == 3).await;
        let mut again = timeout(DEADLINE, async {
            loop {
                if let Ok(again) = SubSocket::connect(&address, b"").await {
                    return again;
                }
            }
        })
        .await
        .unwrap();
        until("a new one", || socket.subscribers() == 4).await;
        socket.send(&message(1));
        assert_eq!(timeout(DEADLINE, again.next()).await.unwrap().unwrap().unwrap().len(), 2);
    }

    #[test]
    fn a_topic_subscribed_to_twice_is_wanted_until_cancelled_twice() {
        let mut topics = Vec::new();
        subscribe(&mut topics, b"a").unwrap();
        subscribe(&mut topics, b"a").unwrap();
        cancel(&mut topics, b"a");
        assert_eq!(topics.len(), 1);
        cancel(&mut topics, b"b");
        cancel(&mut topics, b"a");
        assert!(topics.is_empty());
        (0..MAX_SUBSCRIPTIONS).for_each(|_| subscribe(&mut topics, b"").unwrap());
        assert!(subscribe(&mut topics, b"").is_err());
    }
}
