//! A frontend's side.

mod connection;
mod pool;
mod tcp;

use std::net::Ipv4Addr;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::codec::{Codec, CodecError};
use crate::discovery::{EndpointRecord, Transport};
use crate::limits::ANSWER_TIMEOUT;
use crate::request::client::pool::Pool;
use crate::request::message::Outgoing;
use crate::request::{ServerError, nats};
use crate::response::header::Prologue;
use crate::response::{Hub, Lost, ResponseStream, Waiting, Wrapping, frame};
use crate::runtime::{RequestPlane, Runtime};

/// A request that did not reach its worker. Another worker may be tried unless said otherwise.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No connection.
    #[error("worker at {address}: {reason}")]
    Unreachable {
        /// Where.
        address: String,
        /// Why.
        reason: String,
    },
    /// The worker takes no more requests.
    #[error("worker at {address} refuses: {reason}")]
    Refused {
        /// Where.
        address: String,
        /// Its words.
        reason: String,
    },
    /// The worker took it but did not begin to answer in time.
    #[error("worker at {address} did not begin to answer within {seconds} s")]
    NoAnswer {
        /// Where.
        address: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The worker answered with an error before any output (prologue); another worker would say the same.
    #[error("{0}")]
    Failed(String),
    /// Larger than allowed; no worker would take it.
    #[error("request of {bytes} bytes, {limit} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Too many responses at once in this process.
    #[error("{limit} responses at once, more are not allowed")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// It could not be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Sends requests: a pool of connections to workers and a server that they answer to. Clones share it; when the last
/// one goes, it stops.
#[derive(Clone, Debug)]
pub struct RequestClient {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    hub: Hub,
    pool: Pool,
    nats: Option<nats::Requester>,
    stop: DropGuard,
}

/// A request on its way.
struct Sent {
    waiting: Waiting,
    codec: Codec,
    /// Whose answer is awaited.
    worker: Arc<str>,
}

impl RequestClient {
    /// Starts the server for answers; connects to NATS if the request plane is that.
    pub async fn start(runtime: &Runtime) -> Result<Self, ServerError> {
        let stop = CancellationToken::new();
        let hub = Hub::start(runtime.host, stop.clone()).map_err(|source| {
            let host = runtime.host.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
            ServerError::Bind { address: format!("{host}:0"), source }
        })?;
        let nats = match &runtime.request_plane {
            RequestPlane::Tcp => None,
            RequestPlane::Nats(server) => Some(nats::Requester::new(nats::connect(server).await?)),
        };
        let pool = Pool::new(hub.clone());
        Ok(Self { shared: Arc::new(Shared { hub, pool, nats, stop: stop.drop_guard() }) })
    }

    /// Sends `request` to an instance; the stream begins once the worker has called back and said that it will answer.
    pub async fn call<T: DeserializeOwned + Send>(
        &self,
        target: &EndpointRecord,
        id: &str,
        request: &(impl Serialize + Sync),
    ) -> Result<ResponseStream<T>, CallError> {
        self.call_wrapped(target, id, request, Wrapping::Annotated).await
    }

    /// Like [`RequestClient::call`], for endpoints that answer `{"data": value}` without annotations.
    pub async fn call_plain<T: DeserializeOwned + Send>(
        &self,
        target: &EndpointRecord,
        id: &str,
        request: &(impl Serialize + Sync),
    ) -> Result<ResponseStream<T>, CallError> {
        self.call_wrapped(target, id, request, Wrapping::Plain).await
    }

    async fn call_wrapped<T>(
        &self,
        target: &EndpointRecord,
        id: &str,
        request: &(impl Serialize + Sync),
        wrapping: Wrapping,
    ) -> Result<ResponseStream<T>, CallError> {
        let sent = async {
            let sent = self.send(target, id, request).await?;
            answer(sent, wrapping).await
        };
        timeout(ANSWER_TIMEOUT, sent).await.unwrap_or_else(|_| {
            Err(CallError::NoAnswer { address: address(target).to_owned(), seconds: ANSWER_TIMEOUT.as_secs() })
        })
    }

    async fn send(
        &self,
        target: &EndpointRecord,
        id: &str,
        request: &(impl Serialize + Sync),
    ) -> Result<Sent, CallError> {
        let Shared { hub, pool, nats, .. } = &*self.shared;
        let codec = target.request_plane_codec;
        let subject = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
        let outgoing = Outgoing { id, codec, address: hub.address(), subject: &subject.to_string() };
        let waiting = match &target.transport {
            Transport::Tcp(address) => {
                tcp::send(hub, pool, address, subject, &tcp::request(address, &outgoing, request)?).await?
            }
            Transport::NatsTcp(address) => {
                let requester = nats.as_ref().ok_or_else(|| CallError::Unreachable {
                    address: address.clone(),
                    reason: "it takes requests over NATS, this process sends them over TCP".to_owned(),
                })?;
                requester.send(hub, address, subject, &outgoing, request).await?
            }
        };
        Ok(Sent { waiting, codec, worker: address(target).into() })
    }

    /// Stops the server for answers.
    pub async fn close(&self) {
        self.shared.stop.token().cancel();
    }
}

/// Waits until the worker has called back and said that it will answer.
async fn answer<T>(sent: Sent, wrapping: Wrapping) -> Result<ResponseStream<T>, CallError> {
    let Sent { mut waiting, codec, worker } = sent;
    let (mut call_back, permit) = waiting.outcome().await.map_err(|lost| lost_call(&worker, lost))?;
    let prologue = call_back
        .buffer
        .frame(&mut call_back.socket, frame::MESSAGE, |frame| serde_json::from_slice::<Prologue>(frame.header));
    let broken = |reason: String| CallError::Unreachable { address: worker.to_string(), reason };
    let prologue = prologue.await.map_err(|error| broken(error.to_string()))?;
    match prologue.map_err(|error| broken(format!("bad prologue: {error}")))?.error {
        None => Ok(ResponseStream::new(call_back, permit, codec, wrapping, worker)),
        Some(error) => Err(CallError::Failed(error)),
    }
}

fn lost_call(worker: &str, lost: Lost) -> CallError {
    let address = worker.to_owned();
    match lost {
        Lost::Refused(reason) => CallError::Refused { address, reason },
        Lost::Unreachable(reason) => CallError::Unreachable { address, reason },
    }
}

fn address(target: &EndpointRecord) -> &str {
    match &target.transport {
        Transport::Tcp(address) | Transport::NatsTcp(address) => address,
    }
}
