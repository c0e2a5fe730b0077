//! Gives batches again to whoever missed some.
//!
//! A client (DEALER or REQ) sends an empty frame and the first number it wants (64 bits, big-endian). It gets a message
//! per batch, two empty frames, number and payload, and at last one with number −1 and an empty payload.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::timeout;

use crate::event::zmtp::ZmtpError;
use crate::event::zmtp::command::{self, Command};
use crate::event::zmtp::connection::{self, Incoming, Intake, Role};
use crate::event::zmtp::frame::{self, Kind};
use crate::event::zmtp::listen::Listener;
use crate::limits::REPLAY_BATCHES;

/// Bytes of batches that are remembered; older ones are forgotten, whatever their number.
const REPLAY_BYTES: usize = 64 * 1024 * 1024;
/// Bytes that are gathered into one write.
const WRITE_BYTES: usize = 64 * 1024;
/// A client that takes nothing for that long is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// What clients say: a number.
const INTAKE: Intake = Intake { limit: 4096, chunk: 512 };
/// The number after the last batch: −1.
const END: u64 = u64::MAX;

/// The last batches.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Number of the next batch.
    next: u64,
    /// The batches before it, without gap.
    batches: VecDeque<Bytes>,
    bytes: usize,
}

impl History {
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Counts a batch that is not remembered.
    pub(super) fn skip(&mut self) {
        self.batches.clear();
        self.bytes = 0;
        self.next += 1;
    }

    pub(super) fn push(&mut self, batch: Bytes) {
        self.next += 1;
        self.bytes += batch.len();
        self.batches.push_back(batch);
        while self.batches.len() > REPLAY_BATCHES || self.bytes > REPLAY_BYTES {
            let Some(oldest) = self.batches.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }

    /// Appends messages from number `from` on, and below `end`, to `out` until it is full; says where to go on.
    fn messages(&self, from: u64, end: u64, out: &mut Vec<u8>) -> u64 {
        let first = self.next - self.batches.len() as u64;
        let from = from.max(first);
        for (number, batch) in (from..end).zip(self.batches.range((from - first).min(self.next - first) as usize..)) {
            if out.len() >= WRITE_BYTES {
                return number;
            }
            message(number, batch, out);
        }
        end
    }
}

fn message(number: u64, payload: &[u8], out: &mut Vec<u8>) {
    frame::put(Kind::Part, b"", out);
    frame::put(Kind::Part, b"", out);
    frame::put(Kind::Part, &number.to_be_bytes(), out);
    frame::put(Kind::LastPart, payload, out);
}

/// The socket that clients ask; closed when dropped.
#[derive(Debug)]
pub(super) struct Replay {
    listener: Listener,
}

impl Replay {
    pub(super) async fn bind(host: Option<IpAddr>, port: u16, history: Arc<Mutex<History>>) -> io::Result<Self> {
        let listener = Listener::bind(host, port, move |stream| serve(stream, Arc::clone(&history))).await?;
        Ok(Self { listener })
    }

    pub(super) fn port(&self) -> u16 {
        self.listener.address().port()
    }
}

async fn serve(stream: TcpStream, history: Arc<Mutex<History>>) -> Result<(), ZmtpError> {
    let (mut reader, mut writer, _) = connection::open(stream, Role::Router, INTAKE).await?;
    while let Some(incoming) = reader.next().await? {
        match &incoming {
            // One request after the other: while a client is answered its further requests wait in its own socket.
            Incoming::Message(parts) => match start_of(parts) {
                Some(start) => answer(&mut writer, &history, start).await?,
                None => tracing::warn!(frames = parts.len(), "replay request ignored: it names no first batch"),
            },
            Incoming::Command(body) => {
                if let Command::Ping { context } = command::parse(body)? {
                    write(&mut writer, &command::pong(context)).await?;
                }
            }
        }
    }
    Ok(())
}

/// The first number that a request asks for.
fn start_of(parts: &[Bytes]) -> Option<u64> {
    Some(u64::from_be_bytes(parts.get(1)?[..].try_into().ok()?))
}

/// Gives all batches that there are now from `start` on, a piece at a time: a slow client holds nothing but that piece.
async fn answer(writer: &mut OwnedWriteHalf, history: &Mutex<History>, start: u64) -> Result<(), ZmtpError> {
    let end = lock(history).next();
    let (mut from, mut buffer) = (start, Vec::new());
    while from < end {
        buffer.clear();
        from = lock(history).messages(from, end, &mut buffer);
        write(writer, &buffer).await?;
    }
    buffer.clear();
    message(END, b"", &mut buffer);
    write(writer, &buffer).await
}

async fn write(writer: &mut OwnedWriteHalf, bytes: &[u8]) -> Result<(), ZmtpError> {
    Ok(timeout(WRITE_TIMEOUT, writer.write_all(bytes)).await.map_err(|_| ZmtpError::Stalled)??)
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}
