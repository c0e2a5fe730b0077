//! Which model a server serves.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::failure::Failure;
use crate::http::{Body, Piece, parse_head};
use crate::limits::{MODELS_TIMEOUT, READ_BUFFER, WHOLE_MAX};
use crate::run::LoadError;
use crate::target::Target;

/// The first model of `/v1/models`.
pub fn first_model(target: &Target) -> Result<String, LoadError> {
    let failed = |why: String| LoadError::Models { address: target.address, why };
    let body = fetch(target).map_err(|error| failed(error.to_string()))?;
    let value: serde_json::Value = serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))?;
    let name = value.pointer("/data/0/id").and_then(serde_json::Value::as_str);
    name.map(str::to_owned).ok_or_else(|| failed("it serves no model now".to_owned()))
}

fn fetch(target: &Target) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&target.address, MODELS_TIMEOUT)?;
    stream.set_read_timeout(Some(MODELS_TIMEOUT))?;
    stream.set_write_timeout(Some(MODELS_TIMEOUT))?;
    let Target { prefix, host, headers, .. } = target;
    let request = format!("GET {prefix}/v1/models HTTP/1.1\r\nhost: {host}\r\n{headers}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let (mut received, mut buffer) = (Vec::new(), vec![0; READ_BUFFER]);
    loop {
        let count = stream.read(&mut buffer)?;
        received.extend_from_slice(&buffer[..count]);
        if received.len() > WHOLE_MAX {
            return Err(io::Error::other("the answer is too long"));
        }
        match body(&received, count == 0).map_err(io::Error::other)? {
            Some(body) => return Ok(body),
            None if count == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => {}
        }
    }
}

/// The body of a response, if it is there as a whole; `closed`: nothing more comes.
fn body(received: &[u8], closed: bool) -> Result<Option<Vec<u8>>, Failure> {
    let Some(head) = parse_head(received)? else { return Ok(None) };
    if head.status != 200 {
        return Err(Failure::malformed(format!("status {} where 200 was expected", head.status)));
    }
    let (mut framing, mut bytes, mut content) = (head.body, &received[head.length..], Vec::new());
    loop {
        match framing.next(&mut bytes)? {
            Piece::Data(data) => content.extend_from_slice(data),
            Piece::End => return Ok(Some(content)),
            Piece::More => return Ok((closed && framing == Body::UntilClose).then_some(content)),
        }
    }
}
