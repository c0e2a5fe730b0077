//! Connections of the system port: so many at once, and none that says nothing for long.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Connections that are served at once; further ones wait to be accepted.
const MAX_SYSTEM_CONNECTIONS: usize = 256;
/// Time for the head of a request to come; a connection that was used before may be idle so long.
const HEAD_TIME: Duration = Duration::from_secs(75);
/// Largest head of a request in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What clients may take up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Connections at once.
    pub(super) connections: usize,
    /// Time for a head to come.
    pub(super) head_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: MAX_SYSTEM_CONNECTIONS, head_time: HEAD_TIME }
    }
}

/// Serves `app` until `stop`; requests that run then still end.
pub(super) async fn accept(listener: TcpListener, app: Router, limits: Limits, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_time).max_buf_size(MAX_HEAD_BYTES);
    loop {
        let next = async {
            // The semaphore is never closed.
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((listener.accept().await, place))
        };
        let Some(Some((accepted, place))) = stop.run_until_cancelled(next).await else { return };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection of the system port could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let served = serve(stream, http.clone(), app.clone(), stop.clone());
        tokio::spawn(async move {
            served.await;
            drop(place);
        });
    }
}

async fn serve(stream: TcpStream, http: http1::Builder, app: Router, stop: CancellationToken) {
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app)));
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of the system port ended early");
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_util::sync::DropGuard;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(10);

    async fn start(limits: Limits) -> (SocketAddr, DropGuard) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let app = Router::new().route("/", get(async || "here"));
        tokio::spawn(accept(listener, app, limits, stop.clone()));
        (address, stop.drop_guard())
    }

    async fn asked(address: SocketAddr) -> TcpStream {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
        client
    }

    async fn answer(client: &mut TcpStream) -> String {
        let mut bytes = vec![0; 1024];
        let read = tokio::time::timeout(DEADLINE, client.read(&mut bytes)).await.expect("an answer in time").unwrap();
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }

    #[tokio::test]
    async fn a_connection_too_many_is_served_when_another_has_gone() {
        let (address, _port) = start(Limits { connections: 2, ..Limits::default() }).await;
        let mut held = [asked(address).await, asked(address).await];
        for client in &mut held {
            assert!(answer(client).await.ends_with("here"));
        }
        let mut late = asked(address).await;
        let waiting = tokio::time::timeout(Duration::from_millis(100), late.read_u8()).await;
        assert!(waiting.is_err(), "both places are taken");
        drop(held);
        assert!(answer(&mut late).await.ends_with("here"));
    }

    #[tokio::test]
    async fn clients_that_say_nothing_lose_their_place() {
        let (address, _port) = start(Limits { connections: 1, head_time: Duration::from_millis(50) }).await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        silent.write_all(b"GET / HT").await.unwrap();
        assert!(answer(&mut asked(address).await).await.ends_with("here"));
        let mut rest = Vec::new();
        tokio::time::timeout(DEADLINE, silent.read_to_end(&mut rest)).await.expect("closed in time").unwrap();
    }

    #[tokio::test]
    async fn idle_connections_end_with_the_port() {
        let (address, port) = start(Limits::default()).await;
        let mut idle = asked(address).await;
        assert!(answer(&mut idle).await.ends_with("here"));
        drop(port);
        assert_eq!(answer(&mut idle).await, "");
        assert!(TcpStream::connect(address).await.is_err());
    }
}
