//! What a frontend says while it is answered.

use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use crate::response::frame;
use crate::response::header::{KILL, STOP};
use crate::response::sink::Cancel;

/// Bytes read at once; a word is 30 bytes long.
const READ_BYTES: usize = 64;

/// Words of the frontend that were read and not yet told.
#[derive(Debug, Default)]
pub(crate) struct Control {
    unread: Vec<u8>,
    stop: bool,
    kill: bool,
    closed: bool,
}

impl Control {
    /// The next word that was not told yet. The loss of the connection counts as `kill`, which is told for ever.
    pub(crate) fn poll(&mut self, socket: &mut TcpStream, cx: &mut Context<'_>) -> Poll<Cancel> {
        loop {
            if self.kill {
                return Poll::Ready(Cancel::Kill);
            }
            if std::mem::take(&mut self.stop) {
                return Poll::Ready(Cancel::Stop);
            }
            ready!(self.poll_read(socket, cx));
        }
    }

    /// Like [`Control::poll`], for a writer that has to wait: only a kill stops it, a stop is kept for later.
    pub(crate) fn poll_kill(&mut self, socket: &mut TcpStream, cx: &mut Context<'_>) -> Poll<()> {
        while !self.kill {
            ready!(self.poll_read(socket, cx));
        }
        Poll::Ready(())
    }

    /// Ready when the connection is closed, whatever is said before.
    pub(crate) fn poll_closed(&mut self, socket: &mut TcpStream, cx: &mut Context<'_>) -> Poll<()> {
        while !self.closed {
            ready!(self.poll_read(socket, cx));
        }
        Poll::Ready(())
    }

    fn poll_read(&mut self, socket: &mut TcpStream, cx: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [0; READ_BYTES];
        let mut read = ReadBuf::new(&mut bytes);
        match ready!(std::pin::Pin::new(socket).poll_read(cx, &mut read)) {
            Ok(()) if !read.filled().is_empty() => self.hear(read.filled()),
            Ok(()) | Err(_) => {
                self.closed = true;
                self.kill = true;
            }
        }
        Poll::Ready(())
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        loop {
            match frame::decode(&self.unread, frame::CONTROL) {
                Ok(Some((frame, used))) => {
                    self.stop |= frame.header == STOP;
                    self.kill |= frame.header == KILL;
                    self.unread.drain(..used);
                }
                Ok(None) => return,
                // Nothing that follows can be understood.
                Err(_) => {
                    self.closed = true;
                    self.kill = true;
                    return;
                }
            }
        }
    }
}
