//! A ZMTP peer that is written by hand, to say also what no library would.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::in_time;

pub(crate) const MORE: u8 = 1;
pub(crate) const LONG: u8 = 2;
pub(crate) const COMMAND: u8 = 4;

pub(crate) struct Peer {
    stream: TcpStream,
}

impl Peer {
    /// Shakes hands as a socket of that type, in version 3.`minor`.
    pub(crate) async fn connect(port: u16, socket_type: &str, minor: u8) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let mut peer = Self { stream };
        let mut greeting = [0; 64];
        greeting[0] = 0xff;
        greeting[9..12].copy_from_slice(&[0x7f, 3, minor]);
        greeting[12..16].copy_from_slice(b"NULL");
        peer.stream.write_all(&greeting).await.unwrap();
        let mut theirs = [0; 64];
        in_time("greeting", peer.stream.read_exact(&mut theirs)).await.unwrap();
        assert_eq!((theirs[0], &theirs[9..16]), (0xff, &b"\x7f\x03\x01NULL"[..]));
        let mut ready = b"\x05READY\x0bSocket-Type\0\0\0".to_vec();
        ready.push(socket_type.len() as u8);
        ready.extend(socket_type.bytes());
        ready.extend(b"\x08Identity\0\0\0\0");
        peer.send(COMMAND, &ready).await;
        peer
    }

    /// [`connect`](Self::connect), and the other side agrees.
    pub(crate) async fn ready(port: u16, socket_type: &str, minor: u8) -> Self {
        let mut peer = Self::connect(port, socket_type, minor).await;
        let (flags, body) = peer.frame().await.expect("READY");
        assert!(flags == COMMAND && body.starts_with(b"\x05READY\x0bSocket-Type"), "{body:?}");
        peer
    }

    pub(crate) async fn send(&mut self, flags: u8, body: &[u8]) {
        let mut bytes = vec![flags, body.len() as u8];
        if flags & LONG != 0 {
            bytes.truncate(1);
            bytes.extend((body.len() as u64).to_be_bytes());
        }
        bytes.extend(body);
        self.send_raw(&bytes).await;
    }

    /// The other side may have closed already.
    pub(crate) async fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Flags without that of length, and body; none at the end of the connection.
    pub(crate) async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        in_time("a frame", async {
            let flags = self.stream.read_u8().await.ok()?;
            let length = match flags & LONG {
                0 => u64::from(self.stream.read_u8().await.ok()?),
                _ => self.stream.read_u64().await.ok()?,
            };
            let mut body = vec![0; length as usize];
            self.stream.read_exact(&mut body).await.ok()?;
            Some((flags & !LONG, body))
        })
        .await
    }

    /// The frames of a message.
    pub(crate) async fn message(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            let (flags, body) = self.frame().await.expect("a message");
            assert!(flags & COMMAND == 0, "a command inside or instead of a message");
            frames.push(body);
            if flags & MORE == 0 {
                return frames;
            }
        }
    }

    /// Waits until all that was said before has been understood.
    pub(crate) async fn ping(&mut self) {
        self.send(COMMAND, b"\x04PING\0\x0ahello").await;
        assert_eq!(self.frame().await, Some((COMMAND, b"\x04PONGhello".to_vec())));
    }
}
