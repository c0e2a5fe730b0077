//! A worker's side.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde::Serialize;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::codec::{Codec, CodecError};
use crate::limits::{CLOSE_TIMEOUT, CONNECT_TIMEOUT};
use crate::protocol::Annotated;
use crate::response::control::Control;
use crate::response::frame;
use crate::response::header::{Hello, Prologue, SENTINEL};
use crate::response::item::Item;
use crate::response::tokens;

/// Room for frames that is kept between two flushes; what a burst needed goes back.
const KEPT_BYTES: usize = 1024;

/// How a frontend, or the loss of it, ends a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// It wants no more output; what there is may still be sent (`stop`).
    Stop,
    /// It wants nothing more (`kill`), or the connection is gone.
    Kill,
}

/// A response that cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The connection.
    #[error("response to {address}: {source}")]
    Connection {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The payload.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// The way back to who sent a request. Dropped without use, it tells the frontend nothing: refuse or open.
#[derive(Debug)]
pub struct Responder {
    /// Where to call, `host:port`.
    pub(crate) address: String,
    /// Which request is answered.
    pub(crate) subject: String,
    /// Encoding of the answer.
    pub(crate) codec: Codec,
}

impl Responder {
    /// Dials the frontend and says that an answer follows.
    pub async fn open(self) -> Result<ResponseSink, SinkError> {
        let codec = self.codec;
        let (socket, address) = self.dial(None).await?;
        Ok(ResponseSink { socket, address, codec, pending: Vec::new(), sent: 0, control: Control::default() })
    }

    /// Dials the frontend and says that there is no answer, and why.
    pub async fn refuse(self, reason: &str) -> Result<(), SinkError> {
        let (mut socket, _) = self.dial(Some(reason)).await?;
        wait_for_close(&mut socket).await;
        Ok(())
    }

    async fn dial(self, error: Option<&str>) -> Result<(TcpStream, String), SinkError> {
        let Self { address, subject, .. } = self;
        let greeting = greeting(subject, error)?;
        let dialled = timeout(CONNECT_TIMEOUT, async {
            let mut socket = TcpStream::connect(&address).await?;
            socket.set_nodelay(true)?;
            tokio::io::AsyncWriteExt::write_all(&mut socket, &greeting).await?;
            io::Result::Ok(socket)
        });
        match dialled.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(socket) => Ok((socket, address)),
            Err(source) => Err(SinkError::Connection { address, source }),
        }
    }
}

/// Hello and prologue.
fn greeting(subject: String, error: Option<&str>) -> Result<Vec<u8>, SinkError> {
    let hello = Codec::Json.encode(&Hello { subject, stream_type: "response".to_owned() })?;
    let prologue = Codec::Json.encode(&Prologue { error: error.map(str::to_owned) })?;
    let mut greeting = Vec::with_capacity(2 * frame::PREFIX_BYTES + hello.len() + prologue.len());
    frame::encode(&hello, &[], &mut greeting);
    frame::encode(&prologue, &[], &mut greeting);
    Ok(greeting)
}

/// Reads until the frontend has closed. It closes when it has all, and who closes first keeps the pair of ports.
async fn wait_for_close(socket: &mut TcpStream) {
    let mut control = Control::default();
    let _ = timeout(CLOSE_TIMEOUT, poll_fn(|cx| control.poll_closed(socket, cx))).await;
}

/// An answer in the making. Frames are gathered by `push` and sent by `flush`, so one write carries all that is there.
/// Dropped without `finish`, it breaks the stream: the frontend sees that the worker died.
#[derive(Debug)]
pub struct ResponseSink {
    socket: TcpStream,
    address: String,
    codec: Codec,
    /// Frames of which the first `sent` bytes are with the kernel.
    pending: Vec<u8>,
    sent: usize,
    control: Control,
}

impl ResponseSink {
    /// Adds one value, wrapped as `{"data": {"data": value}, "complete_final": false}` for an LLM endpoint.
    pub fn push(&mut self, value: &impl Serialize) -> Result<(), SinkError> {
        self.add(&Item::of(Annotated::of(value)))
    }

    /// Adds one value as `{"data": value, "complete_final": false}`, as other endpoints answer.
    pub fn push_plain(&mut self, value: &impl Serialize) -> Result<(), SinkError> {
        self.add(&Item::of(value))
    }

    /// Adds one output of new tokens, nothing else set: the same bytes as `push` of such an `EngineOutput`, but cheap.
    pub fn push_tokens(&mut self, tokens: &[u32]) {
        tokens::encode(self.codec, tokens, &mut self.pending);
    }

    fn add(&mut self, item: &impl Serialize) -> Result<(), SinkError> {
        let start = self.pending.len();
        self.pending.extend_from_slice(&frame::prefix(0, 0));
        if let Err(error) = self.codec.encode_into(item, &mut self.pending) {
            self.pending.truncate(start);
            return Err(error.into());
        }
        tokens::seal(start, &mut self.pending);
        Ok(())
    }

    /// Bytes that were added and not sent yet.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len() - self.sent
    }

    /// Sends what was added. Waits while the frontend does not read. Dropped half-way, the next flush goes on there.
    pub async fn flush(&mut self) -> Result<(), SinkError> {
        match poll_fn(|cx| self.poll_flush(cx)).await {
            Ok(()) => Ok(()),
            Err(source) => Err(SinkError::Connection { address: self.address.clone(), source }),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.pending.len() {
            match Pin::new(&mut self.socket).poll_write(cx, &self.pending[self.sent..])? {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(count) => self.sent += count,
                // A frontend that reads no more may still say that it has gone.
                Poll::Pending => {
                    return self
                        .control
                        .poll_kill(&mut self.socket, cx)
                        .map(|()| Err(io::ErrorKind::ConnectionAborted.into()));
                }
            }
        }
        self.sent = 0;
        self.pending.clear();
        self.pending.shrink_to(KEPT_BYTES);
        Poll::Ready(Ok(()))
    }

    /// Waits until the frontend cancels or is gone. Safe to use in `select!` beside other work, between calls.
    pub async fn cancelled(&mut self) -> Cancel {
        poll_fn(|cx| self.control.poll(&mut self.socket, cx)).await
    }

    /// Says that the answer is complete, and closes.
    pub async fn finish(mut self) -> Result<(), SinkError> {
        self.add(&Item::<()> { data: None, complete_final: true })?;
        frame::encode(SENTINEL, &[], &mut self.pending);
        self.flush().await?;
        self.pending = Vec::new();
        wait_for_close(&mut self.socket).await;
        Ok(())
    }
}
