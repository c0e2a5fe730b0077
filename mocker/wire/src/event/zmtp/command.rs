//! Commands: what peers say to each other beside messages.

use bytes::Bytes;

use super::ZmtpError;
use super::frame::{self, Kind};

/// Longest context of a PING, which its PONG repeats (by the protocol).
const MAX_PING_CONTEXT: usize = 16;

/// A command of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command<'a> {
    /// It is ready, and is a socket of that type.
    Ready { socket_type: &'a [u8] },
    /// It gives up.
    Error { reason: &'a [u8] },
    /// It wants messages that begin so.
    Subscribe(&'a [u8]),
    /// It no longer wants them.
    Cancel(&'a [u8]),
    /// It wants a PONG with this context.
    Ping { context: &'a [u8] },
    /// Nothing that asks for an answer.
    Other,
}

/// Reads the body of a command frame.
pub(crate) fn parse(body: &[u8]) -> Result<Command<'_>, ZmtpError> {
    let (name, data) = split_short(body).ok_or(ZmtpError::Command("name cut off"))?;
    Ok(match name {
        b"READY" => Command::Ready { socket_type: socket_type(data)? },
        b"ERROR" => {
            let (reason, _) = split_short(data).ok_or(ZmtpError::Command("reason of ERROR cut off"))?;
            Command::Error { reason }
        }
        b"SUBSCRIBE" => Command::Subscribe(data),
        b"CANCEL" => Command::Cancel(data),
        b"PING" => match data.split_at_checked(2) {
            Some((_ttl, context)) if context.len() <= MAX_PING_CONTEXT => Command::Ping { context },
            _ => return Err(ZmtpError::Command("PING of a wrong length")),
        },
        _ => Command::Other,
    })
}

/// A text with a length of one byte before it, and what follows.
fn split_short(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// The property `Socket-Type` of READY; names of properties are the same in any case.
fn socket_type(mut properties: &[u8]) -> Result<&[u8], ZmtpError> {
    let cut_off = ZmtpError::Command("property of READY cut off");
    let mut found = None;
    while !properties.is_empty() {
        let Some((name, rest)) = split_short(properties) else { return Err(cut_off) };
        let Some((length, rest)) = rest.split_first_chunk() else { return Err(cut_off) };
        let length = u32::from_be_bytes(*length) as usize;
        let Some((value, rest)) = rest.split_at_checked(length) else { return Err(cut_off) };
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            found = Some(value);
        }
        properties = rest;
    }
    found.ok_or(ZmtpError::Command("READY without Socket-Type"))
}

/// READY of a socket of that type, as a frame.
pub(crate) fn ready(socket_type: &str) -> Vec<u8> {
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    body.extend((socket_type.len() as u32).to_be_bytes());
    body.extend_from_slice(socket_type.as_bytes());
    framed(&body)
}

/// PONG, as a frame.
pub(crate) fn pong(context: &[u8]) -> Bytes {
    framed(&[b"\x04PONG", context].concat()).into()
}

/// SUBSCRIBE, as a frame.
pub(crate) fn subscribe(topic: &[u8]) -> Vec<u8> {
    framed(&[b"\x09SUBSCRIBE", topic].concat())
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 9);
    frame::put(Kind::Command, body, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let cases: [(&[u8], Command<'_>); 7] = [
            (b"\x05READY\x0bSocket-Type\0\0\0\x03SUB\x08Identity\0\0\0\0", Command::Ready { socket_type: b"SUB" }),
            (b"\x05READY\x0bsocket-type\0\0\0\x03PUB", Command::Ready { socket_type: b"PUB" }),
            (b"\x05ERROR\x02no", Command::Error { reason: b"no" }),
            (b"\x09SUBSCRIBE", Command::Subscribe(b"")),
            (b"\x06CANCELkv", Command::Cancel(b"kv")),
            (b"\x04PING\0\x0aabc", Command::Ping { context: b"abc" }),
            (b"\x05OTHERxyz", Command::Other),
        ];
        for (body, expected) in cases {
            assert_eq!(parse(body).unwrap(), expected);
        }
    }

    #[test]
    fn bad_commands_are_refused() {
        let cases: [(&[u8], &str); 8] = [
            (b"", "name cut off"),
            (b"\x09SUB", "name cut off"),
            (b"\x05READY", "without Socket-Type"),
            (b"\x05READY\x0bSocket", "cut off"),
            (b"\x05READY\x0bSocket-Type\0\0", "cut off"),
            (b"\x05READY\x0bSocket-Type\xff\xff\xff\xffPUB", "cut off"),
            (b"\x05ERROR\x09no", "cut off"),
            (b"\x04PING\0\x0a0123456789abcdefg", "PING of a wrong length"),
        ];
        for (body, expected) in cases {
            let error = parse(body).unwrap_err().to_string();
            assert!(error.contains(expected), "{body:?}: {error}");
        }
    }

    #[test]
    fn our_commands_read_back() {
        for (framed, expected) in [
            (ready("PUB"), Command::Ready { socket_type: b"PUB" }),
            (subscribe(b"kv-events"), Command::Subscribe(b"kv-events")),
            (pong(b"abc").to_vec(), Command::Other),
        ] {
            let frame = frame::decode(&framed, 100).unwrap().unwrap();
            assert_eq!(frame.kind, Kind::Command);
            assert_eq!(parse(&framed[frame.header..]).unwrap(), expected);
        }
    }
}
