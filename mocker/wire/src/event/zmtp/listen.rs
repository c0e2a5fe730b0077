//! Takes connections for a socket that binds.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ZmtpError;
use crate::limits::MAX_SUBSCRIBERS;

/// Time that connections have to write what is queued when their socket is closed.
const LINGER: Duration = Duration::from_secs(1);
/// Pause when no connection can be taken, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A bound socket; closed when dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    _stop: DropGuard,
}

impl Listener {
    /// Binds to one address or to all interfaces, and hands each connection to `serve`. More than [`MAX_SUBSCRIBERS`] at
    /// once are closed at once.
    pub(crate) async fn bind<F, R>(host: Option<IpAddr>, port: u16, serve: F) -> io::Result<Self>
    where
        F: Fn(TcpStream) -> R + Send + 'static,
        R: Future<Output = Result<(), ZmtpError>> + Send + 'static,
    {
        let listener = TcpListener::bind((host.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), port)).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(accept(listener, serve, stop.clone())));
        Ok(Self { address, _stop: stop.drop_guard() })
    }

    /// Where it is bound.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept<F, R>(listener: TcpListener, serve: F, stop: CancellationToken)
where
    F: Fn(TcpStream) -> R,
    R: Future<Output = Result<(), ZmtpError>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(MAX_SUBSCRIBERS));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot take an event connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(%peer, "event connection refused: {MAX_SUBSCRIBERS} are open");
            continue;
        };
        let connection = serve(stream);
        let stop = stop.clone();
        tokio::spawn(async move {
            let stopped = async {
                stop.cancelled().await;
                tokio::time::sleep(LINGER).await;
            };
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "event connection ended");
                },
                () = stopped => {}
            }
            drop(place);
        });
    }
}
