//! Events through a NATS server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::EventError;
use super::queue::Queue;

/// Messages that the client holds beside our own queue while it connects again.
const CLIENT_CAPACITY: usize = 256;
/// Messages that the client holds for a subscriber before it drops some.
const SUBSCRIPTION_CAPACITY: usize = 1024;
/// Bytes taken from the queue at once.
const BATCH_BYTES: usize = 64 * 1024;
/// Time that a publisher has to write what is queued when it is closed.
const LINGER: Duration = Duration::from_secs(1);
/// Longest pause before the client connects again.
const RECONNECT_MAX: Duration = Duration::from_secs(2);

/// Sends to one subject; closed when dropped.
#[derive(Debug)]
pub(crate) struct NatsSender {
    shared: Arc<Shared>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Shared {
    queue: Queue<Bytes>,
    dropped: AtomicU64,
}

impl NatsSender {
    pub(crate) async fn connect(server: &str, subject: String) -> Result<Self, EventError> {
        let client = connect(server).await?;
        let shared = Arc::new(Shared { queue: Queue::new(), dropped: AtomicU64::new(0) });
        let stop = CancellationToken::new();
        let (sending, stopped) = (Arc::clone(&shared), stop.clone());
        tokio::spawn(async move {
            let lingered = async {
                stopped.cancelled().await;
                tokio::time::sleep(LINGER).await;
            };
            tokio::select! {
                () = send_queued(&client, subject.into(), &sending) => {}
                () = lingered => {}
            }
        });
        Ok(Self { shared, _stop: stop.drop_guard() })
    }

    pub(crate) fn send(&self, message: Bytes) {
        let bytes = message.len();
        self.shared.count(self.shared.queue.push(message, bytes));
    }

    /// Messages dropped because the server could not be reached, or refused them.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for NatsSender {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

impl Shared {
    fn count(&self, dropped: u64) {
        if dropped > 0 {
            self.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }
}

async fn send_queued(client: &Client, subject: async_nats::Subject, shared: &Shared) {
    let mut messages = Vec::new();
    while shared.queue.wait().await {
        shared.queue.take(BATCH_BYTES, &mut messages);
        for message in messages.drain(..) {
            if let Err(error) = client.publish(subject.clone(), message).await {
                tracing::warn!(%subject, %error, "event not published");
                shared.count(1);
            }
        }
    }
    if let Err(error) = client.flush().await {
        tracing::debug!(%subject, %error, "events may not have reached the NATS server");
    }
}

/// Subscribes to a subject. The subscription outlives the connection: the client connects again and subscribes again.
pub(crate) async fn subscribe(server: &str, subject: String) -> Result<NatsReceiver, EventError> {
    let client = connect(server).await?;
    let messages = client.subscribe(subject).await.map_err(|error| refused(server, &error))?;
    // Otherwise what is published at once after our return could precede the subscription.
    client.flush().await.map_err(|error| refused(server, &error))?;
    Ok(NatsReceiver { messages, _client: client })
}

/// Receives from one subject.
#[derive(Debug)]
pub(crate) struct NatsReceiver {
    messages: Subscriber,
    _client: Client,
}

impl NatsReceiver {
    /// The body of the next message; none when the client has closed.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        Some(self.messages.next().await?.payload)
    }
}

async fn connect(server: &str) -> Result<Client, EventError> {
    ConnectOptions::new()
        .client_capacity(CLIENT_CAPACITY)
        .subscription_capacity(SUBSCRIPTION_CAPACITY)
        .max_reconnects(None)
        .reconnect_delay_callback(|attempt| {
            RECONNECT_MAX.min(Duration::from_millis(50) * 2u32.saturating_pow(attempt.min(16) as u32))
        })
        .connect(server)
        .await
        .map_err(|error| refused(server, &error))
}

fn refused(server: &str, error: &dyn std::error::Error) -> EventError {
    EventError::Nats { server: server.to_owned(), reason: error.to_string() }
}
