//! Token streams and prompt recipes of the golden scenarios, and their check sums.

use std::collections::HashMap;

use dynosim_engine::hash::mix;
use serde_json::Value;

fn splitmix64(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Token `pos` of a stream.
pub(crate) fn tok(stream: u64, pos: u64) -> u32 {
    (1000 + splitmix64((stream << 32) | pos) % 30_000) as u32
}

/// Output token `pos` (from 0) of the request at `index` in the scenario.
pub(crate) fn output(index: usize, pos: u64) -> u32 {
    tok(0x8000_0000 + index as u64, pos)
}

/// Expands a prompt recipe; `index_of` finds the requests whose output it quotes.
pub(crate) fn expand(recipe: &Value, index_of: &HashMap<String, usize>) -> Vec<u32> {
    let mut tokens = Vec::new();
    for segment in recipe.as_array().expect("a recipe is a list") {
        let len = segment["len"].as_u64().unwrap_or(0);
        if let Some(ids) = segment["ids"].as_array() {
            tokens.extend(ids.iter().map(|id| id.as_u64().expect("a token id") as u32));
        } else if let Some(id) = segment["output_of"].as_str() {
            tokens.extend((0..len).map(|pos| output(index_of[id], pos)));
        } else {
            let stream = segment["stream"].as_u64().expect("a stream number");
            let offset = segment["offset"].as_u64().unwrap_or(0);
            tokens.extend((0..len).map(|pos| tok(stream, offset + pos)));
        }
    }
    tokens
}

/// CRC-32 (zlib) of the numbers as little-endian u32.
pub(crate) fn crc32(numbers: impl IntoIterator<Item = u32>) -> u32 {
    let mut crc = u32::MAX;
    for byte in numbers.into_iter().flat_map(u32::to_le_bytes) {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

/// Chain hashes of the full blocks of `size` tokens.
pub(crate) fn chain(tokens: &[u32], size: usize) -> Vec<u64> {
    let mut parent = 0;
    let mut hashes = Vec::with_capacity(tokens.len() / size);
    for block in tokens.chunks_exact(size) {
        parent = block.iter().fold(mix(parent, 1), |hash, &token| mix(hash, u64::from(token)));
        hashes.push(parent);
    }
    hashes
}

/// Runs `[first, count]` of ascending numbers.
pub(crate) fn runs(numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => runs.push((number, 1)),
        }
    }
    runs
}

#[test]
fn the_check_sum_is_that_of_zlib() {
    assert_eq!(crc32([0x3433_3231]), 0x9BE3_E0A3);
    assert_eq!(crc32([]), 0);
}

#[test]
fn runs_join_neighbours() {
    assert_eq!(runs([3, 4, 5, 9, 1]), [(3, 3), (9, 1), (1, 1)]);
}
