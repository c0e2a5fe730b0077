//! Where workers call back: one listener for all answers that a process waits for.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::limits::{HELLO_TIMEOUT, LISTEN_BACKLOG, MAX_PENDING_HELLOS, MAX_RESPONSE_STREAMS};
use crate::response::buffer::ReadBuffer;
use crate::response::frame;
use crate::response::header::Hello;
use crate::runtime::advertised_host;

/// How long accepting rests when the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A worker that has called back.
#[derive(Debug)]
pub(crate) struct CallBack {
    pub(crate) socket: TcpStream,
    /// What came after the hello.
    pub(crate) buffer: ReadBuffer,
}

/// Why no worker will call back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    Refused(String),
    Unreachable(String),
}

type Outcome = Result<CallBack, Lost>;

#[derive(Debug)]
struct Waiter {
    outcome: oneshot::Sender<Outcome>,
    /// Number of the connection that the request went over.
    via: u64,
}

#[derive(Debug)]
struct Shared {
    waiters: Mutex<FxHashMap<Uuid, Waiter>>,
    streams: Arc<Semaphore>,
    hellos: Arc<Semaphore>,
}

/// The listener and all answers that are waited for. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Hub {
    shared: Arc<Shared>,
    address: Arc<str>,
    stop: CancellationToken,
}

/// An answer that is waited for. Dropped, it is waited for no longer.
#[derive(Debug)]
pub(crate) struct Waiting {
    subject: Uuid,
    shared: Arc<Shared>,
    outcome: oneshot::Receiver<Outcome>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Hub {
    /// Listens on any port until `stop`.
    pub(crate) fn start(host: Option<IpAddr>, stop: CancellationToken) -> std::io::Result<Self> {
        let listener = listen(SocketAddr::new(host.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), 0))?;
        let address = SocketAddr::new(advertised_host(host), listener.local_addr()?.port());
        let shared = Arc::new(Shared {
            waiters: Mutex::default(),
            streams: Arc::new(Semaphore::new(MAX_RESPONSE_STREAMS)),
            hellos: Arc::new(Semaphore::new(MAX_PENDING_HELLOS)),
        });
        tokio::spawn(stop.clone().run_until_cancelled_owned(accept(listener, Arc::clone(&shared))));
        Ok(Self { shared, address: address.to_string().into(), stop })
    }

    /// Where workers call back.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Waits for the answer to `subject`, asked for over connection `via`; none if there are too many.
    pub(crate) fn expect(&self, subject: Uuid, via: u64) -> Option<Waiting> {
        let permit = Arc::clone(&self.shared.streams).try_acquire_owned().ok()?;
        let (sender, outcome) = oneshot::channel();
        self.shared.waiters().insert(subject, Waiter { outcome: sender, via });
        Some(Waiting { subject, shared: Arc::clone(&self.shared), outcome, permit: Some(permit) })
    }

    /// Gives an answer up.
    pub(crate) fn fail(&self, subject: &Uuid, lost: Lost) {
        let waiter = self.shared.waiters().remove(subject);
        if let Some(waiter) = waiter {
            // Nobody may be waiting any more.
            let _ = waiter.outcome.send(Err(lost));
        }
    }

    /// Gives all answers up that were asked for over connection `via`.
    pub(crate) fn fail_all_via(&self, via: u64, lost: &Lost) {
        let lost_ones: Vec<_> = self.shared.waiters().extract_if(|_, waiter| waiter.via == via).collect();
        for (_, waiter) in lost_ones {
            let _ = waiter.outcome.send(Err(lost.clone()));
        }
    }

    /// Waits until it has stopped listening.
    pub(crate) async fn closed(&self) {
        self.stop.cancelled().await;
    }
}

impl Waiting {
    /// The worker's connection, with the permit that counts the stream.
    pub(crate) async fn outcome(&mut self) -> Result<(CallBack, Option<OwnedSemaphorePermit>), Lost> {
        let outcome = (&mut self.outcome).await;
        let call_back = outcome.unwrap_or_else(|_| Err(Lost::Unreachable("no longer waited for".to_owned())))?;
        Ok((call_back, self.permit.take()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.waiters().remove(&self.subject);
    }
}

impl Shared {
    fn waiters(&self) -> std::sync::MutexGuard<'_, FxHashMap<Uuid, Waiter>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens on `address`, with room for a burst of connections.
pub(crate) fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(LISTEN_BACKLOG)
}

/// The next connection; rests while the process has no descriptor left.
pub(crate) async fn next_connection(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                // It only makes answers later if it fails.
                let _ = socket.set_nodelay(true);
                return (socket, peer);
            }
            Err(error) => {
                tracing::debug!("no connection accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // The semaphore is never closed.
    while let Ok(permit) = Arc::clone(&shared.hellos).acquire_owned().await {
        let (socket, peer) = next_connection(&listener).await;
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let greeted = timeout(HELLO_TIMEOUT, greet(socket, &shared)).await;
            if let Err(reason) = greeted.unwrap_or_else(|_| Err("no hello in time".to_owned())) {
                tracing::debug!("response connection from {peer} closed: {reason}");
            }
            drop(permit);
        });
    }
}

/// Reads which request is answered, and hands the connection to who waits for it.
async fn greet(mut socket: TcpStream, shared: &Shared) -> Result<(), String> {
    let mut buffer = ReadBuffer::default();
    let hello = buffer.frame(&mut socket, frame::CONTROL, |frame| serde_json::from_slice::<Hello>(frame.header)).await;
    let Hello { subject, stream_type } = hello.map_err(|e| e.to_string())?.map_err(|e| format!("bad hello: {e}"))?;
    if stream_type != "response" {
        return Err(format!("stream type `{stream_type}` (allowed: response)"));
    }
    let waiter = subject.parse().ok().and_then(|subject: Uuid| shared.waiters().remove(&subject));
    let waiter = waiter.ok_or_else(|| format!("subject `{subject}` is not waited for"))?;
    waiter.outcome.send(Ok(CallBack { socket, buffer })).map_err(|_| "nobody waits any more".to_owned())
}
