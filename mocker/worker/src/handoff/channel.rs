//! A connection of one handoff: messages in and out.

use std::fmt;
use std::time::Duration;

use dynosim_wire::bootstrap::{self, HEADER_BYTES, Identity, Message};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::HandoffError;

/// How long a last word may take.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Bytes that a connection reads at once. Messages are about 300 bytes long.
const READ_BYTES: usize = 1024;

/// What bytes travel on.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static> Stream for T {}

/// Bytes of a connection whose handoff is not known.
pub(super) struct Unnamed {
    stream: Box<dyn Stream>,
    input: Vec<u8>,
}

impl Unnamed {
    pub(super) fn new(stream: impl Stream) -> Self {
        Self { stream: Box::new(stream), input: Vec::new() }
    }

    /// Reads the header and the first message, which names the handoff.
    pub(super) async fn open(mut self) -> Result<(Channel, Message), HandoffError> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header).await?;
        bootstrap::check_header(&header)?;
        let frame = loop {
            if let Some((frame, used)) = bootstrap::decode(&self.input)? {
                self.input.drain(..used);
                break frame;
            }
            fill(&mut *self.stream, &mut self.input).await?;
        };
        Ok((self.name(frame.identity), frame.message))
    }

    /// Says hello on a connection that this side has made.
    pub(super) async fn greet(mut self, identity: Identity) -> Result<Channel, HandoffError> {
        self.stream.write_all(&bootstrap::HEADER).await?;
        Ok(self.name(identity))
    }

    fn name(self, identity: Identity) -> Channel {
        Channel { stream: Some(self.stream), identity, input: self.input, last_word: None }
    }
}

/// A connection of one handoff. Dropped, it says its last word if it has one, and closes.
pub(super) struct Channel {
    /// There until dropped.
    stream: Option<Box<dyn Stream>>,
    identity: Identity,
    input: Vec<u8>,
    /// Said when the channel is dropped.
    pub(super) last_word: Option<Message>,
}

impl Channel {
    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// The next message; whatever ends the handoff is an error. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Message, HandoffError> {
        let frame = loop {
            if let Some((frame, used)) = bootstrap::decode(&self.input)? {
                self.input.drain(..used);
                break frame;
            }
            let stream = self.stream.as_mut().ok_or(HandoffError::Closed)?;
            fill(&mut **stream, &mut self.input).await?;
        };
        if frame.identity != self.identity {
            return Err(HandoffError::Unexpected("of another handoff".to_owned()));
        }
        match frame.message {
            Message::Abort { message } => Err(HandoffError::Aborted(message)),
            Message::ProtocolError { message } => Err(HandoffError::Refused(message)),
            Message::Overloaded => Err(HandoffError::Overloaded),
            message => Ok(message),
        }
    }

    /// As [`Self::next`], until the handoff's time is up.
    pub(super) async fn next_until(&mut self, deadline: Deadline) -> Result<Message, HandoffError> {
        match tokio::time::timeout_at(deadline.at, self.next()).await {
            Ok(message) => message,
            Err(_) => Err(HandoffError::Session(deadline.after)),
        }
    }

    /// Sends messages in one write.
    pub(super) async fn send(&mut self, messages: &[Message]) -> Result<(), HandoffError> {
        let mut bytes = Vec::new();
        for message in messages {
            let frame = bootstrap::Frame { identity: self.identity, message: message.clone() };
            bootstrap::encode_into(&frame, &mut bytes)?;
        }
        let stream = self.stream.as_mut().ok_or(HandoffError::Closed)?;
        Ok(stream.write_all(&bytes).await?)
    }

    /// Sends messages that must not be late.
    pub(super) async fn send_until(&mut self, messages: &[Message], deadline: Deadline) -> Result<(), HandoffError> {
        match tokio::time::timeout_at(deadline.at, self.send(messages)).await {
            Ok(sent) => sent,
            Err(_) => Err(HandoffError::Session(deadline.after)),
        }
    }

    /// Sends a message that nothing follows, and closes.
    pub(super) async fn end(mut self, message: Message) -> Result<(), HandoffError> {
        self.last_word = None;
        let last = async {
            self.send(&[message]).await?;
            match &mut self.stream {
                Some(stream) => Ok(stream.shutdown().await?),
                None => Ok(()),
            }
        };
        tokio::time::timeout(LAST_WORD, last).await.unwrap_or(Err(HandoffError::Closed))
    }

    /// What this side does about an error, before it hands it on: nothing more is said to a peer that ended it itself.
    pub(super) fn failed(&mut self, error: HandoffError, say: impl FnOnce(String) -> Message) -> HandoffError {
        let peer_ended_it = matches!(
            error,
            HandoffError::Aborted(_) | HandoffError::Refused(_) | HandoffError::Overloaded | HandoffError::Closed
        );
        self.last_word = (!peer_ended_it).then(|| say(shortened(&error)));
        error
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let (Some(stream), Some(message)) = (self.stream.take(), self.last_word.take()) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let channel = Self { stream: Some(stream), identity: self.identity, input: Vec::new(), last_word: None };
        // A peer that hears nothing sees the connection close.
        runtime.spawn(async move { channel.end(message).await.ok() });
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// When the time of a handoff is up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    at: Instant,
    after: Duration,
}

impl Deadline {
    /// That much from now.
    pub(super) fn after(after: Duration) -> Self {
        Self { at: Instant::now() + after, after }
    }
}

/// An error as a peer is told it: errors can quote what the peer has sent.
fn shortened(error: &HandoffError) -> String {
    error.to_string().chars().take(256).collect()
}

async fn fill(stream: &mut dyn Stream, input: &mut Vec<u8>) -> Result<(), HandoffError> {
    input.reserve(READ_BYTES);
    match stream.read_buf(input).await {
        Ok(0) => Err(HandoffError::Closed),
        Ok(_) => Ok(()),
        // A process that died with unread data resets the connection.
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Err(HandoffError::Closed),
        Err(error) => Err(error.into()),
    }
}
