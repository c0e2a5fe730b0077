//! One connection: handshake, then frames in and out.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::command::{self, Command};
use super::frame::{self, Kind};
use super::greeting::{self, Version};
use super::{MAX_MESSAGE_PARTS, ZmtpError};

/// Time that a peer has to greet.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A peer whose machine vanished is noticed after that long without traffic, and some probes.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Largest READY that is accepted in bytes.
const MAX_READY_BYTES: usize = 4096;

/// What our socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Sends to all who subscribe.
    Pub,
    /// Subscribes.
    Sub,
    /// Answers.
    Router,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Pub => "PUB",
            Self::Sub => "SUB",
            Self::Router => "ROUTER",
        }
    }

    fn goes_with(self, peer: &[u8]) -> bool {
        let peers: &[&[u8]] = match self {
            Self::Pub => &[b"SUB", b"XSUB"],
            Self::Sub => &[b"PUB", b"XPUB"],
            Self::Router => &[b"DEALER", b"REQ", b"ROUTER"],
        };
        peers.contains(&peer)
    }
}

/// How much of a peer's words is taken in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intake {
    /// Largest message in bytes.
    pub(crate) limit: usize,
    /// Bytes read at once.
    pub(crate) chunk: usize,
}

/// Something that a peer sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// The body of a command.
    Command(Bytes),
    /// The parts of a message.
    Message(Vec<Bytes>),
}

/// The reading half.
#[derive(Debug)]
pub(crate) struct Reader {
    half: OwnedReadHalf,
    buffer: BytesMut,
    intake: Intake,
    /// Parts of a message whose last part is still to come; kept here so that a cancelled read loses nothing.
    parts: Vec<Bytes>,
    parts_bytes: usize,
}

impl Reader {
    /// What comes next; none at the end of the connection. May be cancelled at any time.
    pub(crate) async fn next(&mut self) -> Result<Option<Incoming>, ZmtpError> {
        loop {
            match self.frame()? {
                Some((Kind::Command, body)) => return Ok(Some(Incoming::Command(body))),
                Some((kind, body)) => {
                    if let Some(parts) = self.collect(kind, body)? {
                        return Ok(Some(Incoming::Message(parts)));
                    }
                }
                None => {
                    self.buffer.reserve(self.intake.chunk);
                    if self.half.read_buf(&mut self.buffer).await? == 0 {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// A frame that is in the buffer as a whole.
    fn frame(&mut self) -> Result<Option<(Kind, Bytes)>, ZmtpError> {
        let Some(frame) = frame::decode(&self.buffer, self.intake.limit)? else { return Ok(None) };
        if self.buffer.len() < frame.header + frame.body {
            return Ok(None);
        }
        let whole = self.buffer.split_to(frame.header + frame.body).freeze();
        Ok(Some((frame.kind, whole.slice(frame.header..))))
    }

    fn collect(&mut self, kind: Kind, body: Bytes) -> Result<Option<Vec<Bytes>>, ZmtpError> {
        self.parts_bytes += body.len();
        if self.parts_bytes > self.intake.limit {
            return Err(ZmtpError::TooLong { bytes: self.parts_bytes as u64, limit: self.intake.limit });
        }
        if self.parts.len() == MAX_MESSAGE_PARTS {
            return Err(ZmtpError::TooManyParts);
        }
        self.parts.push(body);
        if kind == Kind::Part {
            return Ok(None);
        }
        self.parts_bytes = 0;
        Ok(Some(std::mem::take(&mut self.parts)))
    }
}

/// Shakes hands. `intake` holds for what comes afterwards.
pub(crate) async fn open(
    stream: TcpStream,
    role: Role,
    intake: Intake,
) -> Result<(Reader, OwnedWriteHalf, Version), ZmtpError> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(&stream).set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(KEEPALIVE))?;
    timeout(HANDSHAKE_TIMEOUT, shake_hands(stream, role, intake)).await.map_err(|_| ZmtpError::Timeout)?
}

async fn shake_hands(
    stream: TcpStream,
    role: Role,
    intake: Intake,
) -> Result<(Reader, OwnedWriteHalf, Version), ZmtpError> {
    let (mut half, mut writer) = stream.into_split();
    writer.write_all(&greeting::ours()).await?;
    let mut theirs = [0; greeting::LENGTH];
    half.read_exact(&mut theirs).await?;
    let version = greeting::parse(&theirs)?;
    writer.write_all(&command::ready(role.name())).await?;
    let first = Intake { limit: MAX_READY_BYTES, chunk: 256 };
    let mut reader = Reader { half, buffer: BytesMut::new(), intake: first, parts: Vec::new(), parts_bytes: 0 };
    let Some(Incoming::Command(body)) = reader.next().await? else {
        return Err(ZmtpError::Command("a message or the end instead of READY"));
    };
    match command::parse(&body)? {
        Command::Ready { socket_type } if role.goes_with(socket_type) => {}
        Command::Ready { socket_type } => {
            let theirs = String::from_utf8_lossy(socket_type).into_owned();
            return Err(ZmtpError::Role { ours: role.name(), theirs });
        }
        Command::Error { reason } => return Err(ZmtpError::Refused(String::from_utf8_lossy(reason).into_owned())),
        _ => return Err(ZmtpError::Command("another command instead of READY")),
    }
    reader.intake = intake;
    Ok((reader, writer, version))
}
