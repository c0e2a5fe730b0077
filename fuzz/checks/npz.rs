//! Profiles of any content never panic, and durations of accepted ones respect their floors.
//!
//! The first byte picks the way in: a bare array, a mocker file, or a folder whose two files the rest is split into.

use std::io::{Error, ErrorKind};
use std::path::Path;

use dynosim_engine::timing::npz::parse_npy;
use dynosim_engine::timing::{ProfileError, TimingModel, load};
use dynosim_engine::{DecodeBatch, PrefillBatch};

pub(crate) fn check(data: &[u8]) {
    let Some((way, data)) = data.split_first() else { return };
    match way % 4 {
        0 => drop(parse_npy(data)),
        1 => durations(load(Path::new("a.npz"), &mut |_| Ok(data.to_vec()))),
        2 => folder(data, "raw_data.json"),
        _ => folder(data, "raw_data.npz"),
    }
}

/// Splits the bytes at the length that the first two give.
fn folder(data: &[u8], files: &str) {
    let Some((at, rest)) = data.split_first_chunk::<2>() else { return };
    let (prefill, decode) = rest.split_at(usize::from(u16::from_le_bytes(*at)).min(rest.len()));
    durations(load(Path::new("p"), &mut |path| {
        let path = path.to_str().unwrap_or_default();
        match (path.ends_with(files), path.contains("prefill")) {
            (true, true) => Ok(prefill.to_vec()),
            (true, false) => Ok(decode.to_vec()),
            (false, _) if path == "p" => Err(Error::from(ErrorKind::IsADirectory)),
            (false, _) => Err(Error::from(ErrorKind::NotFound)),
        }
    }));
}

fn durations(model: Result<TimingModel, ProfileError>) {
    let Ok(model) = model else { return };
    for tokens in [1, 100, 5000, u64::from(u32::MAX), u64::MAX] {
        let prefill = model.prefill_ms(PrefillBatch { requests: 1, prefix_tokens: 0, new_tokens: tokens });
        let decode = model.decode_ms(DecodeBatch { requests: 3, kv_tokens: tokens }, 1 << 20);
        assert!(prefill >= 0.0 && decode >= 1.0);
    }
}
