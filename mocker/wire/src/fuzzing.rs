//! Doors for fuzz targets: every parser of bytes that a peer sends, with what must hold for any bytes.

use bytes::Bytes;
use serde_json::Value;

use crate::codec::Codec;
use crate::protocol::{EngineOutput, PreprocessedRequest};
use crate::request::parsers::{decode, decode_answer, parse};
use crate::response::{Wrapping, decode_item, frame};

/// Frames of the request plane: what a worker reads.
pub fn request_frames(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((request, used))) = decode(rest) {
        assert!(used >= 8 && used <= rest.len());
        assert!(request.headers.end + 4 == request.payload.start && request.payload.end == used);
        let payload = Bytes::copy_from_slice(&rest[request.payload]);
        if let Ok(call) = parse(&rest[request.headers], &payload) {
            let _ = call.decode::<PreprocessedRequest>();
        }
        rest = &rest[used..];
    }
}

/// Answers of the request plane: what a frontend reads.
pub fn request_answers(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((reason, used))) = decode_answer(rest) {
        assert_eq!(used, reason.len() + 4);
        rest = &rest[used..];
    }
}

/// Frames of the response plane, from a worker and from a frontend.
pub fn response_frames(bytes: &[u8]) {
    for limits in [frame::MESSAGE, frame::CONTROL] {
        let mut rest = bytes;
        while let Ok(Some((frame, used))) = frame::decode(rest, limits) {
            assert_eq!(used, frame::PREFIX_BYTES + frame.header.len() + frame.body.len());
            for codec in [Codec::Json, Codec::MessagePack] {
                let _ = decode_item::<EngineOutput>(codec, Wrapping::Annotated, frame.body);
                let _ = decode_item::<Value>(codec, Wrapping::Plain, frame.body);
            }
            rest = &rest[used..];
        }
    }
}
