//! A frontend's side.

use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde::de::DeserializeOwned;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::codec::{Codec, CodecError};
use crate::limits::CLOSE_TIMEOUT;
use crate::protocol::Annotated;
use crate::response::buffer::ReadBuffer;
use crate::response::frame::{self, Frame};
use crate::response::header::{KILL, SENTINEL, STOP};
use crate::response::hub::CallBack;
use crate::response::item::{self, Item, Wrapping};

/// A response that broke off.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The connection ended without the final frame: the worker died.
    #[error("worker at {address} broke off: {reason}")]
    Broken {
        /// Where.
        address: String,
        /// How.
        reason: String,
    },
    /// A frame that cannot be read.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// A response as it comes. Dropped before its end, it tells the worker to stop at once (`kill`).
#[derive(Debug)]
pub struct ResponseStream<T> {
    /// Gone when the response is over, well or badly.
    socket: Option<TcpStream>,
    buffer: ReadBuffer,
    codec: Codec,
    wrapping: Wrapping,
    /// The final item has come; only the worker's farewell is missing.
    complete: bool,
    /// Whose response it is.
    address: Arc<str>,
    /// Counts it among the streams of this process.
    _permit: Option<OwnedSemaphorePermit>,
    item: PhantomData<fn() -> T>,
}

/// What the frames that are there give.
enum Step<T> {
    Item(Annotated<T>),
    End,
    /// The next frame is not whole yet.
    Wait,
}

impl<T> ResponseStream<T> {
    pub(crate) fn new(
        call_back: CallBack,
        permit: Option<OwnedSemaphorePermit>,
        codec: Codec,
        wrapping: Wrapping,
        address: Arc<str>,
    ) -> Self {
        let CallBack { socket, buffer } = call_back;
        let (socket, _permit, item) = (Some(socket), permit, PhantomData);
        Self { socket, buffer, codec, wrapping, complete: false, address, _permit, item }
    }

    /// It has ended without its end.
    fn broken(&mut self, reason: impl ToString) -> StreamError {
        self.socket = None;
        StreamError::Broken { address: self.address.to_string(), reason: reason.to_string() }
    }
}

impl<T: DeserializeOwned + Send> ResponseStream<T> {
    /// The next item; none when the answer is complete. Dropped half-way, nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Annotated<T>>, StreamError> {
        loop {
            match self.step()? {
                Step::Item(item) => return Ok(Some(item)),
                Step::End => return Ok(None),
                // Closed with something unread, the worker would see a reset.
                Step::Wait if self.complete => match timeout(CLOSE_TIMEOUT, self.read()).await {
                    Ok(read) => read?,
                    Err(_) => self.socket = None,
                },
                Step::Wait => self.read().await?,
            }
        }
    }

    /// The next item if it has come already. Lets the reader write all that is there at once.
    pub fn next_ready(&mut self) -> Result<Option<Annotated<T>>, StreamError> {
        loop {
            match self.step()? {
                Step::Item(item) => return Ok(Some(item)),
                Step::End => return Ok(None),
                Step::Wait => {}
            }
            let Some(socket) = &mut self.socket else { return Ok(None) };
            match self.buffer.poll_fill(socket, &mut Context::from_waker(Waker::noop())) {
                Poll::Ready(read) => self.judge(read)?,
                Poll::Pending => return Ok(None),
            }
        }
    }

    /// Asks the worker to stop; items may still come.
    pub async fn stop(&mut self) {
        if let Some(socket) = self.socket.as_mut().filter(|_| !self.complete) {
            let mut word = Vec::new();
            frame::encode(STOP, &[], &mut word);
            // A worker that is gone is noticed by the next read; one that does not listen is waited for no longer.
            let _ = timeout(CLOSE_TIMEOUT, socket.write_all(&word)).await;
        }
    }

    async fn read(&mut self) -> Result<(), StreamError> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        let read = self.buffer.fill(socket).await;
        self.judge(read)
    }

    fn judge(&mut self, read: std::io::Result<usize>) -> Result<(), StreamError> {
        match read {
            Ok(1..) => Ok(()),
            _ if self.complete => {
                self.socket = None;
                Ok(())
            }
            Ok(_) => Err(self.broken("connection closed before the final frame")),
            Err(error) => Err(self.broken(error)),
        }
    }

    fn step(&mut self) -> Result<Step<T>, StreamError> {
        while self.socket.is_some() {
            let (content, used) = match frame::decode(self.buffer.unread(), frame::MESSAGE) {
                Ok(Some((frame, used))) => (Content::read(frame, self.codec, self.wrapping), used),
                Ok(None) => return Ok(Step::Wait),
                Err(error) => return Err(self.broken(error)),
            };
            self.buffer.consume(used);
            match content {
                Content::Item(_) | Content::Word if self.complete => {}
                Content::Item(item) => {
                    let Item { data, complete_final } = item?;
                    self.complete = complete_final;
                    if let Some(data) = data {
                        return Ok(Step::Item(data));
                    }
                }
                Content::Word => {}
                Content::Sentinel if self.complete => self.socket = None,
                Content::Sentinel => return Err(self.broken("its farewell came before the final frame")),
            }
        }
        Ok(Step::End)
    }
}

/// What a frame is.
enum Content<T> {
    Item(Result<Item<Annotated<T>>, CodecError>),
    Sentinel,
    /// A word that means nothing here.
    Word,
}

impl<T: DeserializeOwned> Content<T> {
    fn read(frame: Frame<'_>, codec: Codec, wrapping: Wrapping) -> Self {
        match frame {
            Frame { header, body: [] } if header == SENTINEL => Self::Sentinel,
            Frame { body: [], .. } => Self::Word,
            Frame { body, .. } => Self::Item(item::decode(codec, wrapping, body)),
        }
    }
}

impl<T> Drop for ResponseStream<T> {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.as_mut().filter(|_| !self.complete) {
            let mut word = Vec::new();
            frame::encode(KILL, &[], &mut word);
            // If it cannot be said now, the worker learns it from the loss of the connection.
            let _ = socket.try_write(&word);
        }
    }
}
