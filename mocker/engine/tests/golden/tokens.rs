//! Token streams, prompt recipes and block hashes of the scenarios.

use dynosim_engine::hash::mix;
use serde_json::Value;

const OUTPUT_STREAMS: u64 = 0x8000_0000;

fn splitmix64(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn token(stream: u64, position: u64) -> u32 {
    1000 + (splitmix64((stream << 32) | position) % 30_000) as u32
}

/// Output token `k` of the `index`-th request.
pub(crate) fn output_token(index: usize, k: u32) -> u32 {
    token(OUTPUT_STREAMS + index as u64, u64::from(k))
}

/// Expands a prompt recipe; `index_of` finds a request by its id.
pub(crate) fn expand(recipe: &Value, index_of: &dyn Fn(&str) -> usize) -> Vec<u32> {
    let mut tokens = Vec::new();
    for segment in recipe.as_array().expect("a recipe is a list") {
        let number = |key: &str| segment.get(key).and_then(Value::as_u64);
        if let Some(ids) = segment.get("ids") {
            tokens.extend(ids.as_array().expect("ids").iter().map(|id| id.as_u64().expect("id") as u32));
        } else if let Some(id) = segment.get("output_of") {
            let index = index_of(id.as_str().expect("an id is text"));
            tokens.extend((0..number("len").expect("len")).map(|k| output_token(index, k as u32)));
        } else {
            let (stream, offset) = (number("stream").expect("stream"), number("offset").unwrap_or(0));
            tokens.extend((offset..offset + number("len").expect("len")).map(|k| token(stream, k)));
        }
    }
    tokens
}

/// Expands the prompt of a request and checks its length and checksum.
pub(crate) fn prompt(request: &Value, index_of: &dyn Fn(&str) -> usize) -> Vec<u32> {
    let tokens = expand(&request["prompt"], index_of);
    assert_eq!(Some(tokens.len() as u64), request["prompt_len"].as_u64());
    assert_eq!(Some(u64::from(crc32(&tokens))), request["prompt_crc32"].as_u64());
    tokens
}

/// CRC-32 (zlib) over tokens as little-endian u32.
pub(crate) fn crc32(tokens: &[u32]) -> u32 {
    let mut crc = u32::MAX;
    for byte in tokens.iter().flat_map(|token| token.to_le_bytes()) {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

/// Chain hashes of the full blocks of a token sequence.
pub(crate) fn block_hashes(tokens: &[u32], block_size: usize) -> Vec<u64> {
    let mut chain = 0;
    let blocks = tokens.chunks_exact(block_size);
    blocks
        .map(|block| {
            let content = block.iter().fold(0, |hash, &token| mix(hash, u64::from(token)));
            chain = mix(chain, content);
            chain
        })
        .collect()
}
