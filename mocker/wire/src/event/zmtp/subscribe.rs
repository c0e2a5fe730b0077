//! SUB: receives the messages of one publisher.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::timeout;

use bytes::Bytes;

use super::ZmtpError;
use super::command::{self, Command};
use super::connection::{self, Incoming, Intake, Reader, Role};
use super::frame::{self, Kind};
use super::greeting::Version;
use crate::limits::MAX_ZMQ_FRAME_BYTES;

/// Time to reach a publisher.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const INTAKE: Intake = Intake { limit: MAX_ZMQ_FRAME_BYTES, chunk: 16 * 1024 };

/// A connection to a publisher that has subscribed to a topic.
#[derive(Debug)]
pub(crate) struct SubSocket {
    reader: Reader,
    writer: OwnedWriteHalf,
}

impl SubSocket {
    /// Connects to `host:port` and subscribes to what begins with `topic`.
    pub(crate) async fn connect(address: &str, topic: &[u8]) -> Result<Self, ZmtpError> {
        let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await.map_err(|_| ZmtpError::Timeout)??;
        let (reader, mut writer, version) = connection::open(stream, Role::Sub, INTAKE).await?;
        let wish = match version {
            Version::V31 => command::subscribe(topic),
            Version::V30 => {
                let mut message = Vec::new();
                frame::put(Kind::LastPart, &[b"\x01", topic].concat(), &mut message);
                message
            }
        };
        writer.write_all(&wish).await?;
        Ok(Self { reader, writer })
    }

    /// The parts of the next message; none at the end of the connection.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Bytes>>, ZmtpError> {
        loop {
            match self.reader.next().await? {
                None => return Ok(None),
                Some(Incoming::Message(parts)) => return Ok(Some(parts)),
                Some(Incoming::Command(body)) => match command::parse(&body)? {
                    Command::Ping { context } => self.writer.write_all(&command::pong(context)).await?,
                    Command::Error { reason } => {
                        return Err(ZmtpError::Refused(String::from_utf8_lossy(reason).into_owned()));
                    }
                    _ => {}
                },
            }
        }
    }
}
