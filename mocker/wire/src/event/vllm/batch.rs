//! A batch of events in msgpack: an array of time, events and rank; events are maps.

use rmp::encode as mp;

use super::VllmEvent;

/// Group of KV caches; there is one.
const GROUP: u64 = 0;

/// `timestamp` in seconds since 1970.
pub(crate) fn encode(timestamp: f64, events: &[VllmEvent], dp_rank: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(32 + events.iter().map(size).sum::<usize>());
    array(&mut out, 3);
    // Writing into memory cannot fail, here and below.
    let _ = mp::write_f64(&mut out, timestamp);
    array(&mut out, events.len());
    for event in events {
        encode_event(event, &mut out);
    }
    number(&mut out, dp_rank.into());
    out
}

/// Roughly, and rather too much.
fn size(event: &VllmEvent) -> usize {
    128 + match event {
        VllmEvent::Stored { block_hashes, token_ids, .. } => 9 * block_hashes.len() + 5 * token_ids.len(),
        VllmEvent::Removed { block_hashes } => 9 * block_hashes.len(),
        VllmEvent::Cleared => 0,
    }
}

fn encode_event(event: &VllmEvent, out: &mut Vec<u8>) {
    match event {
        VllmEvent::Stored { block_hashes, parent_block_hash, token_ids, block_size } => {
            begin(out, 6, "BlockStored");
            numbers(out, "block_hashes", block_hashes.iter().copied());
            text(out, "parent_block_hash");
            match parent_block_hash {
                Some(hash) => number(out, *hash),
                None => _ = mp::write_nil(out),
            }
            numbers(out, "token_ids", token_ids.iter().map(|&token| token.into()));
            named(out, "block_size", (*block_size).into());
            named(out, "group_idx", GROUP);
        }
        VllmEvent::Removed { block_hashes } => {
            begin(out, 3, "BlockRemoved");
            numbers(out, "block_hashes", block_hashes.iter().copied());
            named(out, "group_idx", GROUP);
        }
        VllmEvent::Cleared => begin(out, 1, "AllBlocksCleared"),
    }
}

fn begin(out: &mut Vec<u8>, entries: u32, kind: &str) {
    let _ = mp::write_map_len(out, entries);
    text(out, "type");
    text(out, kind);
}

fn numbers(out: &mut Vec<u8>, name: &str, values: impl ExactSizeIterator<Item = u64>) {
    text(out, name);
    array(out, values.len());
    for value in values {
        number(out, value);
    }
}

fn named(out: &mut Vec<u8>, name: &str, value: u64) {
    text(out, name);
    number(out, value);
}

fn array(out: &mut Vec<u8>, length: usize) {
    let _ = mp::write_array_len(out, length as u32);
}

fn text(out: &mut Vec<u8>, text: &str) {
    let _ = mp::write_str(out, text);
}

fn number(out: &mut Vec<u8>, value: u64) {
    let _ = mp::write_uint(out, value);
}
