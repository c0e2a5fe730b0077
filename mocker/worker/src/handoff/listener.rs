//! The port at which destinations meet a prefill worker.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use dynosim_wire::bootstrap::{Identity, Message, Participant, Registration};
use dynosim_wire::card::DisaggregatedEndpoint;
use dynosim_wire::runtime::advertised_host;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::channel::{Channel, Stream, Unnamed};
use super::rendezvous::{Arrival, Expected, Met, Rendezvous, Seat};
use super::{HandoffError, MAX_HANDOFF_CONNECTIONS, Terms};

/// How often a silent connection is asked whether its other end lives, so that the death of a machine is seen as well.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Unanswered questions after which the other end is dead.
const KEEP_ALIVE_TRIES: u32 = 3;
/// Connections that the kernel keeps until they are accepted. Those of a burst beyond it are reset, which looks like a
/// source that died; the kernel has a limit of its own (`net.core.somaxconn`).
const BACKLOG: u32 = 16_384;
/// Pause after a connection could not be accepted (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Sets a connection up: no delay, and the other end's death is noticed.
pub(super) fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE).with_retries(KEEP_ALIVE_TRIES);
    SockRef::from(stream).set_tcp_keepalive(&keep_alive)
}

/// The port at which destinations meet a prefill worker, for all its ranks. Dropped, it is closed; sessions go on.
#[derive(Debug)]
pub struct HandoffListener {
    rendezvous: Arc<Rendezvous>,
    port: u16,
    host: Option<IpAddr>,
    _stop: DropGuard,
}

impl HandoffListener {
    /// Listens on a port (0: any) of the host's address, or of all addresses. Needs a runtime.
    pub fn bind(host: Option<IpAddr>, port: u16, terms: Terms) -> Result<Self, HandoffError> {
        let refused = |source| HandoffError::Bind { port, source };
        let address = host.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let listener = listen(SocketAddr::new(address, port)).map_err(refused)?;
        let port = listener.local_addr().map_err(refused)?.port();
        let rendezvous = Arc::new(Rendezvous::new(terms));
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(accept(listener, rendezvous.clone())));
        Ok(Self { rendezvous, port, host, _stop: stop.drop_guard() })
    }

    /// Reached by others at this address, not at that which it listens on.
    #[must_use]
    pub fn advertised_at(self, host: IpAddr) -> Self {
        Self { host: Some(host), ..self }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What the worker's card says about it; loopback only if the machine has nothing else.
    pub fn endpoint(&self) -> DisaggregatedEndpoint {
        let host = advertised_host(self.host).to_string();
        DisaggregatedEndpoint { bootstrap_host: Some(host), bootstrap_port: Some(self.port) }
    }

    /// The request of a handoff is here; its destination may have come already.
    pub fn expect(&self, identity: Identity) -> Result<Expected, HandoffError> {
        self.rendezvous.expect(identity)
    }

    /// Handoffs that are not over.
    #[cfg(test)]
    pub(super) fn current(&self) -> usize {
        self.rendezvous.current()
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, rendezvous: Arc<Rendezvous>) {
    let permits = Arc::new(Semaphore::new(MAX_HANDOFF_CONNECTIONS));
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let rendezvous = rendezvous.clone();
                tokio::spawn(async move {
                    let _permit = permit;
                    match tune(&stream) {
                        Ok(()) => welcome(stream, &rendezvous).await,
                        Err(error) => tracing::debug!(%error, "bootstrap connection ended"),
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "bootstrap connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves a connection until its handoff begins.
pub(super) async fn welcome(stream: impl Stream, rendezvous: &Arc<Rendezvous>) {
    let patience = rendezvous.terms().rendezvous;
    let meet = introduce(Unnamed::new(stream), rendezvous);
    match tokio::time::timeout(patience, meet).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "bootstrap connection ended"),
        Err(_) => tracing::debug!("bootstrap connection without a request"),
    }
}

/// Brings a connection to the request that it belongs to.
async fn introduce(connection: Unnamed, rendezvous: &Arc<Rendezvous>) -> Result<(), HandoffError> {
    let (mut channel, message) = connection.open().await?;
    let refuse = |message: &str| Message::ProtocolError { message: message.to_owned() };
    let registration = match message {
        Message::Register(registration) if registration.role == Participant::Destination => registration,
        _ => return channel.end(refuse("the first message must be the registration of a destination")).await,
    };
    match rendezvous.arrive(channel.identity().handoff_id) {
        Arrival::Meet(taker) => hand_over(taker, channel, registration).await,
        Arrival::Wait(claimed, seat) => wait(claimed, seat, channel, registration).await,
        Arrival::Withdrawn => {
            channel.send(&[Message::Registered]).await?;
            channel.end(Message::Abort { message: "source request was canceled".to_owned() }).await
        }
        Arrival::Duplicate => channel.end(refuse("handoff session is already active or over")).await,
        Arrival::Overloaded => channel.end(Message::Overloaded).await,
    }
}

async fn wait(
    claimed: oneshot::Receiver<oneshot::Sender<Met>>,
    seat: Seat,
    mut channel: Channel,
    registration: Registration,
) -> Result<(), HandoffError> {
    let taker = tokio::select! {
        taker = claimed => taker.map_err(|_| HandoffError::Stopping)?,
        // Nothing is said before the request is there, so this is the end of the connection or a fault.
        heard = channel.next() => {
            let message = heard?;
            return Err(channel.failed(HandoffError::Unexpected(format!("{message:?}")), |message| {
                Message::ProtocolError { message }
            }));
        }
    };
    drop(seat);
    hand_over(taker, channel, registration).await
}

async fn hand_over(
    taker: oneshot::Sender<Met>,
    channel: Channel,
    registration: Registration,
) -> Result<(), HandoffError> {
    match taker.send(Met { channel, registration }) {
        Ok(()) => Ok(()),
        Err(Met { channel, .. }) => {
            channel.end(Message::Abort { message: "source request was canceled".to_owned() }).await
        }
    }
}
