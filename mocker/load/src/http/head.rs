//! Status line and header fields.

use httparse::{EMPTY_HEADER, Header, Response, Status};

use super::body::Body;
use crate::failure::Failure;
use crate::limits::{HEAD_MAX, HEADERS_MAX};

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    /// `text/event-stream`.
    Events,
    /// Anything else.
    Other,
}

/// The part of a response's head that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) media: Media,
    /// How the body ends.
    pub(crate) body: Body,
    /// The connection can carry another request afterwards.
    pub(crate) keep_alive: bool,
    /// Bytes that the head took.
    pub(crate) length: usize,
}

/// Parses a head; none if it is not there yet as a whole.
pub(crate) fn parse_head(bytes: &[u8]) -> Result<Option<Head>, Failure> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut response = Response::new(&mut headers);
    match response.parse(bytes) {
        Ok(Status::Complete(length)) if length <= HEAD_MAX => interpret(&response, length).map(Some),
        Ok(Status::Partial) if bytes.len() <= HEAD_MAX => Ok(None),
        Ok(_) => Err(Failure::malformed(format!("the head of the response has more than {HEAD_MAX} bytes"))),
        Err(error) => Err(Failure::malformed(format!("the head of the response is no HTTP: {error}"))),
    }
}

fn interpret(response: &Response<'_, '_>, length: usize) -> Result<Head, Failure> {
    let status = response.code.unwrap_or(0);
    let old = response.version == Some(0);
    let mut head = Head { status, media: Media::Other, body: Body::UntilClose, keep_alive: !old, length };
    let mut sized = None;
    let mut chunked = false;
    for &Header { name, value } in response.headers.iter() {
        if name.eq_ignore_ascii_case("content-length") {
            sized = Some(content_length(value)?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = ends_with(value, b"chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            head.keep_alive = if old { ends_with(value, b"keep-alive") } else { !ends_with(value, b"close") };
        } else if name.eq_ignore_ascii_case("content-type") && value.to_ascii_lowercase().starts_with(b"text/event-st")
        {
            head.media = Media::Events;
        } else if name.eq_ignore_ascii_case("content-encoding") && !value.eq_ignore_ascii_case(b"identity") {
            return Err(Failure::malformed("the response is compressed although nothing of that kind was asked for"));
        }
    }
    head.body = match (chunked, sized) {
        _ if (100..200).contains(&status) || status == 204 || status == 304 => Body::sized(0),
        (true, _) => Body::chunked(),
        (false, Some(length)) => Body::sized(length),
        (false, None) => Body::UntilClose,
    };
    head.keep_alive &= head.body != Body::UntilClose;
    Ok(head)
}

fn content_length(value: &[u8]) -> Result<u64, Failure> {
    let text = std::str::from_utf8(value).ok().map(str::trim);
    let digits = text.filter(|text| text.bytes().all(|digit| digit.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| Failure::malformed("content-length is no number"))
}

fn ends_with(value: &[u8], word: &[u8]) -> bool {
    let value = value.trim_ascii_end();
    value.len() >= word.len() && value[value.len() - word.len()..].eq_ignore_ascii_case(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Head {
        parse_head(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn heads_tell_how_the_body_ends_and_whether_the_connection_lives_on() {
        let stream = parse("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!((stream.media, stream.body, stream.keep_alive), (Media::Events, Body::chunked(), true));
        let sized = parse("HTTP/1.1 503 Busy\r\ncontent-length: 7\r\nconnection: close\r\n\r\nsee you");
        assert_eq!((sized.status, sized.body, sized.keep_alive), (503, Body::sized(7), false));
        assert_eq!(sized.length, 59);
        let old = parse("HTTP/1.0 200 OK\r\n\r\n");
        assert_eq!((old.body, old.keep_alive), (Body::UntilClose, false));
        assert_eq!(parse("HTTP/1.1 100 Continue\r\n\r\n").body, Body::sized(0));
    }

    #[test]
    fn half_a_head_is_no_head_yet_and_an_endless_one_is_refused() {
        assert_eq!(parse_head(b"HTTP/1.1 200 OK\r\ncontent-le").unwrap(), None);
        let endless = format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(HEAD_MAX));
        assert!(parse_head(endless.as_bytes()).unwrap_err().message.contains("more than"));
        assert!(parse_head(b"SSH-2.0-OpenSSH\r\n").unwrap_err().message.contains("no HTTP"));
        assert!(parse_head(b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n").is_err());
    }
}
