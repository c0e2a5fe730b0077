//! The request plane over TCP, a worker's side.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::limits::{FRAME_IDLE_TIMEOUT, MAX_CONNECTIONS};
use crate::request::frame;
use crate::request::registry::Registry;
use crate::request::server::ServerError;
use crate::response::{FrameError, listen, next_connection};
use crate::runtime::{Runtime, advertised_host};

/// Room for what comes next.
const READ_BYTES: usize = 8 * 1024;

/// Listens; gives the address that others reach it at.
pub(crate) fn start(
    runtime: &Runtime,
    registry: Registry,
    stop: CancellationToken,
    tasks: &TaskTracker,
) -> Result<SocketAddr, ServerError> {
    let address = SocketAddr::new(runtime.host.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), runtime.port);
    let bound = listen(address).and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
    let (port, listener) = bound.map_err(|source| ServerError::Bind { address: address.to_string(), source })?;
    tasks.spawn(stop.clone().run_until_cancelled_owned(accept(listener, registry, stop, tasks.clone())));
    Ok(SocketAddr::new(advertised_host(runtime.host), port))
}

async fn accept(listener: TcpListener, registry: Registry, stop: CancellationToken, tasks: TaskTracker) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let (socket, peer) = next_connection(&listener).await;
        let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else {
            tracing::warn!("request connection from {peer} closed: {MAX_CONNECTIONS} connections are allowed");
            continue;
        };
        let registry = registry.clone();
        let serving = stop.clone().run_until_cancelled_owned(async move {
            if let Err(reason) = serve(socket, &registry, FRAME_IDLE_TIMEOUT).await {
                tracing::debug!("request connection from {peer} closed: {reason}");
            }
            drop(permit);
        });
        tasks.spawn(serving);
    }
}

/// Why a connection is closed by this side.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("silent inside a frame")]
    Silent,
    #[error("answers are not read")]
    Deaf,
}

/// Takes requests until the frontend closes the connection.
async fn serve(mut socket: TcpStream, registry: &Registry, idle: Duration) -> Result<(), Fault> {
    let mut unread = BytesMut::new();
    let mut answers = Vec::new();
    loop {
        let taken = take_all(&mut unread, registry, &mut answers);
        if let Err(error) = &taken {
            frame::answer(&format!("Read error: {error}"), &mut answers);
        }
        if !answers.is_empty() {
            timeout(idle, socket.write_all(&answers)).await.map_err(|_| Fault::Deaf)??;
            answers.clear();
        }
        taken?;
        // The buffer grows by what has come, never by what is announced.
        unread.reserve(READ_BYTES);
        let read = if unread.is_empty() {
            socket.read_buf(&mut unread).await?
        } else {
            timeout(idle, socket.read_buf(&mut unread)).await.map_err(|_| Fault::Silent)??
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

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_millis(100);
    const DEADLINE: Duration = Duration::from_secs(10);

    async fn connect() -> (TcpStream, tokio::task::JoinHandle<Result<(), Fault>>) {
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = next_connection(&listener).await;
        let serving = tokio::spawn(async move { serve(socket, &Registry::default(), IDLE).await });
        (client, serving)
    }

    #[tokio::test]
    async fn silence_inside_a_frame_ends_the_connection() {
        let (mut client, serving) = connect().await;
        client.write_all(b"\0\x04abc").await.unwrap();
        let end = timeout(DEADLINE, serving).await.unwrap().unwrap();
        assert!(matches!(end, Err(Fault::Silent)), "{end:?}");
    }

    #[tokio::test]
    async fn silence_between_frames_is_allowed() {
        let (mut client, serving) = connect().await;
        for _ in 0..2 {
            tokio::time::sleep(IDLE * 2).await;
            client.write_all(b"\0\x01p\0\x02{}\0\0\0\0").await.unwrap();
            let mut answer = [0; 4];
            timeout(DEADLINE, client.read_exact(&mut answer)).await.unwrap().unwrap();
            let mut reason = vec![0; u32::from_be_bytes(answer) as usize];
            timeout(DEADLINE, client.read_exact(&mut reason)).await.unwrap().unwrap();
            assert_eq!(reason, b"Server unavailable: unknown endpoint p");
        }
        drop(client);
        assert!(timeout(DEADLINE, serving).await.unwrap().unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_frame_that_announces_four_gigabytes_ends_the_connection_at_once() {
        let (mut client, serving) = connect().await;
        client.write_all(b"\0\x01p\0\x02{}\xff\xff\xff\xff").await.unwrap();
        let mut answer = Vec::new();
        timeout(DEADLINE, client.read_to_end(&mut answer)).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&answer[4..]).into_owned();
        assert_eq!(text, "Read error: request payload of 4294967295 bytes, 33554432 are allowed");
        assert!(matches!(timeout(DEADLINE, serving).await.unwrap().unwrap(), Err(Fault::Frame(_))));
    }
}
