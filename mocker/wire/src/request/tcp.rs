//! The request plane over TCP, a worker's side.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::limits::{FRAME_IDLE_TIMEOUT, MAX_CONNECTIONS};
use crate::request::frame;
use crate::request::registry::Registry;
use crate::request::server::ServerError;
use crate::response::{FrameError, listen, next_connection};
use crate::runtime::{Runtime, advertised_host};

/// Room for what comes next.
const READ_BYTES: usize = 8 * 1024;

/// Listens; gives the address that others reach it at.
pub(crate) fn start(runtime: &Runtime, registry: Registry, stop: CancellationToken) -> Result<SocketAddr, ServerError> {
    let address = SocketAddr::new(runtime.host.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), runtime.port);
    let bound = listen(address).and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
    let (port, listener) = bound.map_err(|source| ServerError::Bind { address: address.to_string(), source })?;
    tokio::spawn(stop.clone().run_until_cancelled_owned(accept(listener, registry, stop)));
    Ok(SocketAddr::new(advertised_host(runtime.host), port))
}

async fn accept(listener: TcpListener, registry: Registry, stop: CancellationToken) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let (socket, peer) = next_connection(&listener).await;
        let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else {
            tracing::warn!("request connection from {peer} closed: {MAX_CONNECTIONS} connections are allowed");
            continue;
        };
        let registry = registry.clone();
        let serving = stop.clone().run_until_cancelled_owned(async move {
            if let Err(reason) = serve(socket, &registry).await {
                tracing::debug!("request connection from {peer} closed: {reason}");
            }
            drop(permit);
        });
        tokio::spawn(serving);
    }
}

/// Why a connection is closed by this side.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("silent inside a frame for {} s", FRAME_IDLE_TIMEOUT.as_secs())]
    Silent,
    #[error("answers are not read")]
    Deaf,
}

/// Takes requests until the frontend closes the connection.
async fn serve(mut socket: TcpStream, registry: &Registry) -> Result<(), Fault> {
    let mut unread = BytesMut::new();
    let mut answers = Vec::new();
    loop {
        take_all(&mut unread, registry, &mut answers)?;
        if !answers.is_empty() {
            timeout(FRAME_IDLE_TIMEOUT, socket.write_all(&answers)).await.map_err(|_| Fault::Deaf)??;
            answers.clear();
        }
        // The buffer grows by what has come, never by what is announced.
        unread.reserve(READ_BYTES);
        let read = if unread.is_empty() {
            socket.read_buf(&mut unread).await?
        } else {
            timeout(FRAME_IDLE_TIMEOUT, socket.read_buf(&mut unread)).await.map_err(|_| Fault::Silent)??
        };
        if read == 0 {
            return Ok(());
        }
    }
}

/// Takes all whole requests of `unread` and gathers the answers to them.
fn take_all(unread: &mut BytesMut, registry: &Registry, answers: &mut Vec<u8>) -> Result<(), FrameError> {
    while let Some((request, used)) = frame::decode(unread)? {
        let (path, headers, payload) = (2..2 + request.path.len(), request.headers, request.payload);
        let frame = unread.split_to(used).freeze();
        // The decoder has found it to be text.
        let path = std::str::from_utf8(&frame[path]).map_err(|_| FrameError::Path)?;
        let refusal = registry.accept(path, &frame[headers], &frame.slice(payload)).err();
        if let Some(refusal) = &refusal {
            tracing::debug!("request refused: {refusal}");
        }
        frame::answer(refusal.as_deref().unwrap_or_default(), answers);
    }
    Ok(())
}
