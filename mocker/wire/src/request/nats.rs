//! The request plane over NATS.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use rustc_hash::FxHashMap;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::endpoint::EndpointId;
use crate::limits::{ACK_TIMEOUT, CONNECT_TIMEOUT, MAX_MESSAGE_BYTES, MAX_NATS_PENDING, MAX_RESPONSE_STREAMS};
use crate::request::client::CallError;
use crate::request::message::Outgoing;
use crate::request::registry::{Registry, UNAVAILABLE};
use crate::request::server::ServerError;
use crate::response::{Hub, Waiting};

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

/// Connects; once connected, the client connects again for ever.
pub(crate) async fn connect(server: &str) -> Result<async_nats::Client, ServerError> {
    async_nats::ConnectOptions::new()
        .connection_timeout(CONNECT_TIMEOUT)
        .subscription_capacity(MAX_NATS_PENDING)
        .client_capacity(MAX_NATS_PENDING)
        .reconnect_delay_callback(|_| RECONNECT_PAUSE)
        .connect(server)
        .await
        .map_err(|error| ServerError::Nats { server: server.to_owned(), reason: error.to_string() })
}

/// Subjects that a server answers at. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Subscriptions {
    client: async_nats::Client,
    stops: Arc<Mutex<FxHashMap<String, CancellationToken>>>,
}

impl Subscriptions {
    pub(crate) fn new(client: async_nats::Client) -> Self {
        Self { client, stops: Arc::default() }
    }

    /// Answers at `subject` until `stop`, with the endpoint at `path`.
    pub(crate) async fn serve(
        &self,
        subject: &str,
        path: &str,
        registry: Registry,
        stop: CancellationToken,
    ) -> Result<(), ServerError> {
        let failed = |reason: String| ServerError::Nats { server: subject.to_owned(), reason };
        let subscriber = self.client.subscribe(subject.to_owned()).await.map_err(|error| failed(error.to_string()))?;
        // Only when the server has it, a request that follows the record in discovery is sure to arrive.
        self.client.flush().await.map_err(|error| failed(error.to_string()))?;
        let answering = answer(subscriber, self.client.clone(), path.to_owned(), registry);
        tokio::spawn(stop.clone().run_until_cancelled_owned(answering));
        self.stops.lock().unwrap_or_else(PoisonError::into_inner).insert(subject.to_owned(), stop);
        Ok(())
    }

    pub(crate) fn remove(&self, subject: &str) {
        if let Some(stop) = self.stops.lock().unwrap_or_else(PoisonError::into_inner).remove(subject) {
            stop.cancel();
        }
    }
}

async fn answer(mut subscriber: async_nats::Subscriber, client: async_nats::Client, path: String, registry: Registry) {
    while let Some(message) = subscriber.next().await {
        let refusal = registry.accept(&path, &[], &message.payload).err();
        if let Some(reply) = message.reply {
            let answer = refusal.unwrap_or_default();
            if let Err(error) = client.publish(reply, answer.into()).await {
                tracing::warn!("request not acknowledged: {error}");
            }
        }
    }
}

/// A frontend's side.
#[derive(Debug)]
pub(crate) struct Requester {
    client: async_nats::Client,
}

impl Requester {
    pub(crate) fn new(client: async_nats::Client) -> Self {
        Self { client }
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
        let mut payload = Vec::new();
        outgoing.encode(request, &mut payload)?;
        let limit = self.client.server_info().max_payload.min(MAX_MESSAGE_BYTES);
        if payload.len() > limit {
            return Err(CallError::TooLarge { bytes: payload.len(), limit });
        }
        let waiting = hub.expect(answer, 0).ok_or(CallError::TooMany { limit: MAX_RESPONSE_STREAMS })?;
        let request =
            async_nats::Request::new().headers(headers(outgoing.id)).payload(payload.into()).timeout(Some(ACK_TIMEOUT));
        let reply = self
            .client
            .send_request(subject.to_owned(), request)
            .await
            .map_err(|error| CallError::Unreachable { address: subject.to_owned(), reason: error.to_string() })?;
        if reply.payload.starts_with(UNAVAILABLE.as_bytes()) {
            let reason = String::from_utf8_lossy(&reply.payload).into_owned();
            return Err(CallError::Refused { address: subject.to_owned(), reason });
        }
        Ok(waiting)
    }
}

fn headers(id: &str) -> async_nats::HeaderMap {
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("request-id", id);
    headers
}
