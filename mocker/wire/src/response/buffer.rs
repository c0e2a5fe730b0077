//! Bytes of a connection that wait for the rest of their frame.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::response::frame::{self, Frame, FrameError, Limits};

/// Room of the first read: the frames of a short answer that comes in one go.
const FIRST_READ_BYTES: usize = 8 * 1024;
/// Room that a read has at least.
const LEAST_READ_BYTES: usize = 512;

/// A frame that does not come.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("connection closed")]
    Closed,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Grows with what comes, never with what is announced; owns nothing while there is nothing to read, so that ten
/// thousand idle streams cost no memory here.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl ReadBuffer {
    /// What was read and not yet consumed.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Forgets the first bytes of what is unread.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.bytes.len());
    }

    /// Reads once; 0: the other side has closed.
    pub(crate) fn poll_fill(&mut self, socket: &mut TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let ready = socket.poll_read_ready(cx);
        if ready.is_pending() && self.unread().is_empty() {
            *self = Self::default();
        }
        ready!(ready)?;
        self.make_room();
        pin!(socket.read_buf(&mut self.bytes)).poll(cx)
    }

    /// Reads once.
    pub(crate) async fn fill(&mut self, socket: &mut TcpStream) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll_fill(socket, cx)).await
    }

    /// Reads until a frame is whole, and lets `read` have it.
    pub(crate) async fn frame<R>(
        &mut self,
        socket: &mut TcpStream,
        limits: Limits,
        read: impl FnOnce(Frame<'_>) -> R,
    ) -> Result<R, ReadError> {
        loop {
            if let Some((frame, used)) = frame::decode(self.unread(), limits)? {
                let result = read(frame);
                self.consume(used);
                return Ok(result);
            }
            if self.fill(socket).await? == 0 {
                return Err(ReadError::Closed);
            }
        }
    }

    fn make_room(&mut self) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(FIRST_READ_BYTES);
        } else if self.bytes.capacity() - self.bytes.len() < LEAST_READ_BYTES {
            self.bytes.reserve(LEAST_READ_BYTES);
        }
    }
}
