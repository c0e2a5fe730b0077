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
    let mut topics = Vec::new();
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
        let subscribed = topics.iter().any(|prefix: &Box<[u8]>| member.shared.topic.starts_with(prefix));
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
