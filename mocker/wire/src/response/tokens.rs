//! Outputs that are tokens and nothing else, which is nearly all of them, encoded without a serializer.

use std::io::Write;
use std::sync::LazyLock;

use crate::codec::Codec;
use crate::protocol::{Annotated, EngineOutput};
use crate::response::frame;
use crate::response::item::Item;

/// What surrounds the list of tokens in the body of a frame.
#[derive(Debug)]
struct Template {
    before: Vec<u8>,
    after: Vec<u8>,
}

static JSON: LazyLock<Template> = LazyLock::new(|| Template::new(Codec::Json, b"[]"));
static MESSAGE_PACK: LazyLock<Template> = LazyLock::new(|| Template::new(Codec::MessagePack, b"\x90"));

impl Template {
    /// Cuts the list out of an output without tokens, so that the rest cannot differ from what a serializer writes.
    fn new(codec: Codec, empty_list: &[u8]) -> Self {
        let body = codec.encode(&Item::of(Annotated::of(EngineOutput::default()))).unwrap_or_default();
        let key: &[u8] = b"token_ids";
        let at = body.windows(key.len()).position(|window| window == key).map_or(0, |at| at + key.len());
        // JSON has a quote and a colon between key and list.
        let list = body[at..].windows(empty_list.len()).position(|window| window == empty_list).map_or(at, |n| at + n);
        Self { before: body[..list].to_vec(), after: body[list + empty_list.len()..].to_vec() }
    }
}

/// Appends the frame of an output that is `tokens`.
pub(crate) fn encode(codec: Codec, tokens: &[u32], buffer: &mut Vec<u8>) {
    let template = match codec {
        Codec::Json => &*JSON,
        Codec::MessagePack => &*MESSAGE_PACK,
    };
    let start = buffer.len();
    buffer.extend_from_slice(&frame::prefix(0, 0));
    buffer.extend_from_slice(&template.before);
    match codec {
        Codec::Json => json_list(tokens, buffer),
        Codec::MessagePack => message_pack_list(tokens, buffer),
    }
    buffer.extend_from_slice(&template.after);
    seal(start, buffer);
}

/// Writes the length of the body into the frame that began at `start` and has no header.
pub(crate) fn seal(start: usize, buffer: &mut [u8]) {
    let body = buffer.len() - start - frame::PREFIX_BYTES;
    buffer[start..start + frame::PREFIX_BYTES].copy_from_slice(&frame::prefix(0, body));
}

fn json_list(tokens: &[u32], buffer: &mut Vec<u8>) {
    buffer.push(b'[');
    for (place, token) in tokens.iter().enumerate() {
        if place > 0 {
            buffer.push(b',');
        }
        // Writing to a vector cannot fail.
        let _ = write!(buffer, "{token}");
    }
    buffer.push(b']');
}

fn message_pack_list(tokens: &[u32], buffer: &mut Vec<u8>) {
    let _ = rmp::encode::write_array_len(buffer, tokens.len() as u32);
    for token in tokens {
        let _ = rmp::encode::write_uint(buffer, u64::from(*token));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_serializer(codec: Codec, tokens: &[u32]) -> Vec<u8> {
        let output = EngineOutput { token_ids: tokens.to_vec(), ..EngineOutput::default() };
        let mut buffer = Vec::new();
        frame::encode(&[], &codec.encode(&Item::of(Annotated::of(output))).unwrap(), &mut buffer);
        buffer
    }

    fn by_hand(codec: Codec, tokens: &[u32]) -> Vec<u8> {
        let mut buffer = b"before".to_vec();
        encode(codec, tokens, &mut buffer);
        buffer.split_off(6)
    }

    #[test]
    fn tokens_by_hand_are_the_bytes_of_the_serializer_at_every_width() {
        let edges = [0, 1, 127, 128, 255, 256, 65_535, 65_536, u32::MAX];
        let long: Vec<u32> = (0..70_000).collect();
        for codec in [Codec::Json, Codec::MessagePack] {
            for tokens in [&edges[..], &edges[..1], &[], &long[..15], &long[..16], &long[..65_536], &long] {
                assert_eq!(by_hand(codec, tokens), by_serializer(codec, tokens), "{codec:?}, {} tokens", tokens.len());
            }
        }
    }

    proptest! {
        #[test]
        fn tokens_by_hand_are_the_bytes_of_the_serializer(tokens in proptest::collection::vec(any::<u32>(), 0..40)) {
            for codec in [Codec::Json, Codec::MessagePack] {
                prop_assert_eq!(by_hand(codec, &tokens), by_serializer(codec, &tokens));
            }
        }
    }
}
