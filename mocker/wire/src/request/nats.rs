//! The request plane over NATS.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use rustc_hash::FxHashMap;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::endpoint::EndpointId;
use crate::limits::{
    ACK_TIMEOUT, CLOSE_TIMEOUT, CONNECT_TIMEOUT, MAX_MESSAGE_BYTES, MAX_NATS_PENDING, MAX_RESPONSE_STREAMS,
};
use crate::request::client::CallError;
use crate::request::message::Outgoing;
use crate::request::registry::{Registry, UNAVAILABLE};
use crate::request::server::ServerError;
use crate::response::{Hub, Waiting};

/// Queue group of all services of NATS.
const QUEUE: &str = "q";
/// How long NATS may be away before it is asked again, at most.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);

/// Where an endpoint of an instance takes requests.
pub(crate) fn subject(endpoint: &EndpointId, instance_id: u64) -> String {
    let EndpointId { namespace, component, name } = endpoint;
    format!("{}.{name}-{instance_id:x}", slug(&format!("{namespace}_{component}")))
}

/// A text of letters, digits, `-` and `_`, in lower case, as the release makes names from names.
fn slug(text: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.to_lowercase().chars().map(|c| if good(c) { c } else { '_' }).collect()
}

/// A client that connects again for ever, and the number of times that it has lost the server.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    client: async_nats::Client,
    losses: watch::Receiver<u64>,
}

/// Connects.
pub(crate) async fn connect(server: &str) -> Result<Link, ServerError> {
    let (count, losses) = watch::channel(0);
    let client = async_nats::ConnectOptions::new()
        .connection_timeout(CONNECT_TIMEOUT)
        .subscription_capacity(MAX_NATS_PENDING)
        .client_capacity(MAX_NATS_PENDING)
        .reconnect_delay_callback(|_| RECONNECT_PAUSE)
        .event_callback(move |event| {
            if matches!(event, async_nats::Event::Disconnected) {
                count.send_modify(|losses| *losses += 1);
            }
            std::future::ready(())
        })
        .connect(server)
        .await
        .map_err(|error| ServerError::Nats { server: server.to_owned(), reason: error.to_string() })?;
    Ok(Link { client, losses })
}

/// Subjects that a server answers at. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Subscriptions {
    client: async_nats::Client,
    stops: Arc<Mutex<FxHashMap<String, CancellationToken>>>,
}

impl Subscriptions {
    pub(crate) fn new(link: Link) -> Self {
        Self { client: link.client, stops: Arc::default() }
    }

    /// Answers at `subject` until `stop`, with the endpoint at `path`.
    pub(crate) async fn serve(
        &self,
        subject: &str,
        path: &str,
        registry: Registry,
        stop: CancellationToken,
        tasks: &TaskTracker,
    ) -> Result<(), ServerError> {
        let failed = |reason: String| ServerError::Nats { server: subject.to_owned(), reason };
        let messages = self.client.queue_subscribe(subject.to_owned(), QUEUE.to_owned()).await;
        let subscriber = messages.map_err(|error| failed(error.to_string()))?;
        // Only when the server has it, a request that follows the record in discovery is sure to arrive.
        self.client.flush().await.map_err(|error| failed(error.to_string()))?;
        let answerer = Answerer { client: self.client.clone(), path: path.to_owned(), registry };
        tasks.spawn(answerer.run(subscriber, stop.clone()));
        self.stops.lock().unwrap_or_else(PoisonError::into_inner).insert(subject.to_owned(), stop);
        Ok(())
    }

    /// Answers at `subject` no longer.
    pub(crate) async fn remove(&self, subject: &str) {
        let stop = self.stops.lock().unwrap_or_else(PoisonError::into_inner).remove(subject);
        if let Some(stop) = stop {
            stop.cancel();
            // Without a connection there is nobody to tell.
            let _ = self.client.flush().await;
        }
    }
}

/// Takes the requests at one subject.
struct Answerer {
    client: async_nats::Client,
    path: String,
    registry: Registry,
}

impl Answerer {
    async fn run(self, mut subscriber: async_nats::Subscriber, stop: CancellationToken) {
        stop.run_until_cancelled(self.answer_all(&mut subscriber)).await;
        // Requests that are on their way are refused: unanswered, they would be waited for.
        if subscriber.drain().await.is_ok() {
            let _ = timeout(CLOSE_TIMEOUT, self.answer_all(&mut subscriber)).await;
        }
    }

    async fn answer_all(&self, subscriber: &mut async_nats::Subscriber) {
        while let Some(message) = subscriber.next().await {
            let refusal = self.registry.accept(&self.path, &[], &message.payload).err();
            let Some(reply) = message.reply else { continue };
            if let Err(error) = self.client.publish(reply, refusal.unwrap_or_default().into()).await {
                tracing::warn!("request not acknowledged: {error}");
            }
        }
    }
}

/// A frontend's side.
#[derive(Debug)]
pub(crate) struct Requester {
    link: Link,
}

impl Requester {
    pub(crate) fn new(link: Link) -> Self {
        Self { link }
    }

    /// Publishes a request and waits until the worker has acknowledged it.
    pub(crate) async fn send(
        &self,
        hub: &Hub,
        subject: &str,
        answer: Uuid,
        outgoing: &Outgoing<'_>,
        request: &(impl Serialize + Sync),
    ) -> Result<Waiting, CallError> {
        let unreachable = |reason: String| CallError::Unreachable { address: subject.to_owned(), reason };
        let Link { client, losses } = &self.link;
        // Counted from before the state is looked at, no loss goes unseen.
        let mut losses = losses.clone();
        losses.mark_unchanged();
        // What is published now would arrive when nobody waits for it any more.
        if client.connection_state() != async_nats::connection::State::Connected {
            return Err(unreachable("no connection to NATS".to_owned()));
        }
        let mut payload = Vec::new();
        outgoing.encode(request, &mut payload)?;
        let limit = client.server_info().max_payload.min(MAX_MESSAGE_BYTES);
        if payload.len() > limit {
            return Err(CallError::TooLarge { bytes: payload.len(), limit });
        }
        let waiting = hub.expect(answer, 0).ok_or(CallError::TooMany { limit: MAX_RESPONSE_STREAMS })?;
        let request =
            async_nats::Request::new().headers(headers(outgoing.id)).payload(payload.into()).timeout(Some(ACK_TIMEOUT));
        let reply = tokio::select! {
            reply = client.send_request(subject.to_owned(), request) => reply.map_err(|error| error.to_string()),
            _ = losses.changed() => Err("connection to NATS lost".to_owned()),
        };
        let reply = reply.map_err(unreachable)?;
        if reply.payload.starts_with(UNAVAILABLE.as_bytes()) {
            let reason = String::from_utf8_lossy(&reply.payload).into_owned();
            return Err(CallError::Refused { address: subject.to_owned(), reason });
        }
        Ok(waiting)
    }
}

fn headers(id: &str) -> async_nats::HeaderMap {
    let mut headers = async_nats::HeaderMap::new();
    // An id that no header can carry is in the control message anyway.
    if let Ok(id) = id.parse::<async_nats::HeaderValue>() {
        headers.insert("request-id", id);
    }
    headers
}
