//! The listener and its connections.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;

use super::body::{BODY_TIME, MAX_BODY_BYTES};
use super::route;
use super::service::Service;
use super::stream::ResponseBody;

/// Connections that are served at once; further ones wait to be accepted.
pub(crate) const MAX_CONNECTIONS: usize = 32_768;
/// Largest head of a request in bytes, and most bytes of an answer that wait for a client to read.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Most headers of a request.
const MAX_HEADERS: usize = 100;
/// Time for a head to come; a connection that was used before may be idle so long.
const HEAD_TIME: Duration = Duration::from_secs(75);
/// Pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Limits that a user may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Largest body in bytes.
    pub(crate) body_bytes: usize,
    /// Time for a body to come.
    pub(crate) body_time: Duration,
    /// Time for a head to come.
    pub(crate) head_time: Duration,
    /// Connections at once.
    pub(crate) connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body_bytes: MAX_BODY_BYTES, body_time: BODY_TIME, head_time: HEAD_TIME, connections: MAX_CONNECTIONS }
    }
}

/// A server that runs. Dropped without `shutdown`, it goes on.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    ending: Arc<Ending>,
    connections: TaskTracker,
}

/// How far the end has come; connections look at the number and are woken by the tokens.
#[derive(Debug, Default)]
struct Ending {
    stage: AtomicU8,
    drain: CancellationToken,
    stop: CancellationToken,
}

/// Requests are taken.
const SERVE: u8 = 0;
/// Requests that run may end, new ones are not taken.
const DRAIN: u8 = 1;
/// Connections are closed.
const STOP: u8 = 2;

impl Server {
    /// Serves `listener`.
    pub(crate) fn start<S: Service>(listener: TcpListener, service: Arc<S>, limits: Limits) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let server = Self { address, ending: Arc::default(), connections: TaskTracker::new() };
        let accept = accept(listener, service, limits, Arc::clone(&server.ending), server.connections.clone());
        server.connections.spawn(accept);
        Ok(server)
    }

    /// Where it listens.
    pub(crate) fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, lets requests that run end within `grace`, then closes what is left.
    pub(crate) async fn shutdown(self, grace: Duration) {
        debug_assert_eq!(self.ending.stage.load(Ordering::Relaxed), SERVE, "a server ends once");
        self.ending.stage.store(DRAIN, Ordering::Release);
        self.ending.drain.cancel();
        self.connections.close();
        if tokio::time::timeout(grace, self.connections.wait()).await.is_err() {
            tracing::warn!(connections = self.connections.len(), "requests did not end within the grace time");
            self.ending.stage.store(STOP, Ordering::Release);
            self.ending.stop.cancel();
            self.connections.wait().await;
        }
    }
}

async fn accept<S: Service>(
    listener: TcpListener,
    service: Arc<S>,
    limits: Limits,
    ending: Arc<Ending>,
    tasks: TaskTracker,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD_BYTES)
        // Events are small: one buffer and one write beat a vector of slices.
        .writev(false);
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((listener.accept().await, place))
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            () = ending.drain.cancelled() => return,
        };
        let Some((accepted, place)) = accepted else { return };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let served = serve(stream, &http, Arc::clone(&service), limits, &ending);
        tasks.spawn(async move {
            served.await;
            drop(place);
        });
    }
}

/// A request on its way to an answer.
type Answering<S> = Pin<Box<dyn Future<Output = Response<ResponseBody<S>>> + Send>>;

fn serve<S: Service>(
    stream: TcpStream,
    http: &http1::Builder,
    service: Arc<S>,
    limits: Limits,
    ending: &Arc<Ending>,
) -> impl Future<Output = ()> + Send + use<S> {
    // Without it, a client's delayed acknowledgement holds the first event back by 40 ms.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let service = service_fn(move |request| {
        // Boxed, since its place would otherwise stay with the connection while the answer streams.
        let answer: Answering<S> = Box::pin(route::handle(Arc::clone(&service), limits, request));
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = http.serve_connection(TokioIo::new(stream), service);
    Connection {
        http: Box::pin(connection),
        ending: Arc::clone(ending),
        seen: None,
        drain: Box::pin(ending.drain.clone().cancelled_owned()),
        stop: Box::pin(ending.stop.clone().cancelled_owned()),
    }
}

/// A connection that ends when its client or the server wants it to.
struct Connection<H> {
    http: Pin<Box<H>>,
    ending: Arc<Ending>,
    /// Stage at the last look; none before the first.
    seen: Option<u8>,
    drain: Pin<Box<WaitForCancellationFutureOwned>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<H: Graceful> Future for Connection<H> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let stage = self.ending.stage.load(Ordering::Acquire);
        if self.seen != Some(stage) {
            // The tokens take a lock, so they are only asked when there is something to know, and once at first, which
            // leaves this task's waker with them.
            let drained = self.drain.as_mut().poll(context).is_ready();
            if self.stop.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            if drained {
                self.http.as_mut().drain();
            }
            // The number is set before the token: a look in between must be followed by another.
            if (stage == DRAIN) == drained && stage != STOP {
                self.seen = Some(stage);
            }
        }
        self.http.as_mut().poll(context).map(|result| {
            if let Err(error) = result {
                tracing::debug!(%error, "a connection ended early");
            }
        })
    }
}

/// A connection that can be told to end after the request that runs.
trait Graceful: Future<Output = hyper::Result<()>> {
    /// No further request.
    fn drain(self: Pin<&mut Self>);
}

impl<V, B> Graceful for http1::Connection<TokioIo<TcpStream>, V>
where
    V: hyper::service::HttpService<hyper::body::Incoming, ResBody = B>,
    V::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: http_body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn drain(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}
