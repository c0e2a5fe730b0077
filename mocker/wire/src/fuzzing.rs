//! Doors for fuzz targets: every parser of bytes that a peer sends, with what must hold for any bytes.
//!
//! Each says whether all of the bytes were understood, so that a seed cannot turn into noise unnoticed.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::codec::Codec;
use crate::protocol::{EngineOutput, PreprocessedRequest};
use crate::request::parsers::{decode, decode_answer, parse};
use crate::response::header::{Hello, KILL, Prologue, SENTINEL, STOP};
use crate::response::{Wrapping, decode_item, frame};

/// Frames of the request plane: what a worker reads.
pub fn request_frames(bytes: &[u8]) -> bool {
    let (mut rest, mut understood) = (bytes, true);
    while let Ok(Some((request, used))) = decode(rest) {
        assert!(used >= 8 && used <= rest.len());
        assert!(request.headers.end + 4 == request.payload.start && request.payload.end == used);
        let payload = Bytes::copy_from_slice(&rest[request.payload]);
        let call = parse(&rest[request.headers], &payload);
        understood &= call.is_ok_and(|call| call.decode::<PreprocessedRequest>().is_ok());
        rest = &rest[used..];
    }
    understood && rest.is_empty()
}

/// Answers of the request plane: what a frontend reads.
pub fn request_answers(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Ok(Some((reason, used))) = decode_answer(rest) {
        assert_eq!(used, reason.len() + 4);
        rest = &rest[used..];
    }
    rest.is_empty()
}

/// Frames of the response plane, from a worker and from a frontend.
pub fn response_frames(bytes: &[u8]) -> bool {
    let [messages, _] = [frame::MESSAGE, frame::CONTROL].map(|limits| {
        let (mut rest, mut understood) = (bytes, true);
        while let Ok(Some((frame, used))) = frame::decode(rest, limits) {
            assert_eq!(used, frame::PREFIX_BYTES + frame.header.len() + frame.body.len());
            understood &= if frame.header.is_empty() { output(frame.body) } else { header(frame.header) };
            rest = &rest[used..];
        }
        understood && rest.is_empty()
    });
    messages
}

fn output(body: &[u8]) -> bool {
    let read = [Codec::Json, Codec::MessagePack].map(|codec| {
        let annotated = decode_item::<EngineOutput>(codec, Wrapping::Annotated, body).is_ok();
        annotated | decode_item::<Value>(codec, Wrapping::Plain, body).is_ok()
    });
    read.contains(&true)
}

fn header(header: &[u8]) -> bool {
    fn is<T: DeserializeOwned>(header: &[u8]) -> bool {
        serde_json::from_slice::<T>(header).is_ok()
    }
    [SENTINEL, STOP, KILL].contains(&header) | is::<Hello>(header) | is::<Prologue>(header)
}
