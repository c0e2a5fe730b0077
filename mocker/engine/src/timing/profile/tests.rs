//! Profiles of every kind, and a table of refused ones with their whole messages.

use super::*;
use crate::timing::npz::MAX_HEADER_BYTES;
use crate::timing::npz::tests::{matrix, npy, npz, vector};
use crate::{DecodeBatch, PrefillBatch};
use std::collections::BTreeMap;
use zip::CompressionMethod::{Deflated, Stored};

/// Files by path; a path that is the start of another is a directory.
type Files = BTreeMap<&'static str, Vec<u8>>;

fn load_from(files: &Files, path: &str) -> Result<TimingModel, ProfileError> {
    load(Path::new(path), &mut |wanted| {
        let wanted = wanted.to_str().unwrap();
        if wanted.contains("locked") {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match files.get(wanted) {
            Some(bytes) => Ok(bytes.clone()),
            None if files.keys().any(|file| file.starts_with(&format!("{wanted}/"))) => {
                Err(io::ErrorKind::IsADirectory.into())
            }
            None => Err(io::ErrorKind::NotFound.into()),
        }
    })
}

/// The arrays of a good mocker file.
fn mocker() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("prefill_isl", npy("<i8", "False", "(2,)", &[100i64, 200].map(i64::to_le_bytes).concat())),
        ("prefill_ttft_ms", vector(&[10.0, 30.0])),
        ("decode_active_kv_tokens", vector(&[0.0, 1000.0])),
        ("decode_context_length", vector(&[1.0, 11.0, 31.0])),
        ("decode_itl", matrix(&[2.0, 4.0, 8.0, 12.0, 24.0, 48.0], 2, 3)),
    ]
}

/// A good mocker file with one array replaced.
fn mocker_with(name: &str, bytes: Vec<u8>) -> Vec<u8> {
    let mut arrays = mocker();
    arrays.iter_mut().find(|(array, _)| *array == name).unwrap().1 = bytes;
    npz(&arrays, Stored)
}

const PREFILL_JSON: &str = r#"{"prefill_isl": [100, 300, 1000], "prefill_ttft": [12, 16, 30.0], "extra": "x"}"#;
const DECODE_JSON: &str = r#"{"x_kv_usage": [0.1, 0.8, 0.2, 0.9], "y_context_length": [100, 100, 500, 500],
    "z_itl": [10, 52, 8, 22], "max_kv_tokens": 10000}"#;

fn prefill_npz() -> Vec<u8> {
    npz(&[("prefill_isl", vector(&[100.0, 300.0, 1000.0])), ("prefill_ttft", vector(&[12.0, 16.0, 30.0]))], Deflated)
}

fn decode_npz() -> Vec<u8> {
    let arrays = [
        ("x_kv_usage", vector(&[0.1, 0.8, 0.2, 0.9])),
        ("y_context_length", vector(&[100.0, 100.0, 500.0, 500.0])),
        ("z_itl", vector(&[10.0, 52.0, 8.0, 22.0])),
        ("max_kv_tokens", npy("<i4", "False", "(1,)", &10_000i32.to_le_bytes())),
    ];
    npz(&arrays, Deflated)
}

fn folder(prefill: &'static str, decode: &'static str) -> Files {
    Files::from([
        ("p/prefill_raw_data.json", prefill.as_bytes().to_vec()),
        ("p/decode_raw_data.json", decode.as_bytes().to_vec()),
    ])
}

#[test]
fn a_mocker_file_is_interpolated() {
    let model = load_from(&Files::from([("a.npz", npz(&mocker(), Deflated))]), "a.npz").unwrap();
    let prefill = model.prefill_ms(PrefillBatch { requests: 1, prefix_tokens: 0, new_tokens: 150 });
    assert!((prefill - 20.0).abs() < 1e-9);
    // 500 KV tokens of 83 requests: mean context 6.
    let decode = model.decode_ms(DecodeBatch { requests: 83, kv_tokens: 500 }, 1);
    assert!((decode - 10.5).abs() < 1e-9);
}

#[test]
fn both_kinds_of_sample_folders_give_the_same_tables() {
    let new = Files::from([
        ("p/selected_prefill_interpolation/raw_data.npz", prefill_npz()),
        ("p/selected_decode_interpolation/raw_data.npz", decode_npz()),
    ]);
    let model = load_from(&new, "p").unwrap();
    assert_eq!(model, load_from(&folder(PREFILL_JSON, DECODE_JSON), "p").unwrap());
    let prefill = model.prefill_ms(PrefillBatch { requests: 1, prefix_tokens: 0, new_tokens: 550 });
    assert!((prefill - 21.0).abs() < 1e-9);
}

#[test]
fn the_built_in_profile_needs_no_files_and_yields_to_them() {
    let built_in = load_from(&Files::new(), "some/where/H200_TP1P_TP1D").unwrap();
    assert_eq!(built_in, TimingModel::Interpolated(H200.tables().unwrap()));
    let file = Files::from([("H200_TP1P_TP1D", npz(&mocker(), Stored))]);
    assert_ne!(load_from(&file, "H200_TP1P_TP1D").unwrap(), built_in);
    let empty = Files::from([("H200_TP1P_TP1D/readme", vec![])]);
    assert!(matches!(load_from(&empty, "H200_TP1P_TP1D"), Err(ProfileError::Unrecognised { .. })));
}

/// Refused mocker files, each with the message after "profile `a.npz`: ".
#[rustfmt::skip]
fn bad_files() -> Vec<(Vec<u8>, &'static str)> {
    let mut arrays = mocker();
    arrays.remove(3);
    let header = |text: &str| {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes
    };
    let mut version = vector(&[1.0]);
    version[6] = 9;
    let mut corrupt = npz(&mocker(), Stored);
    let at = corrupt.windows(6).position(|window| window == b"\x93NUMPY").unwrap();
    corrupt[at + 75] ^= 1;
    vec![
        (b"prefill_isl,ttft".to_vec(), "not an .npz archive (invalid Zip archive: Could not find EOCD)"),
        (vec![], "not an .npz archive (invalid Zip archive: Could not find EOCD)"),
        (npz(&[], Stored), "array `prefill_isl` is missing; found: none"),
        (npz(&arrays, Stored), "array `decode_context_length` is missing; found: decode_active_kv_tokens, decode_itl, prefill_isl, prefill_ttft_ms"),
        (prefill_npz(), "array `prefill_ttft_ms` is missing; found: prefill_isl, prefill_ttft"),
        (corrupt, "array `prefill_isl`: cannot be unpacked (Invalid checksum)"),
        (mocker_with("prefill_isl", b"hello".to_vec()), "array `prefill_isl`: does not start like a .npy file"),
        (mocker_with("prefill_isl", b"\x93NUMPY\x01".to_vec()), "array `prefill_isl`: ends inside its header"),
        (mocker_with("prefill_isl", version), "array `prefill_isl`: has .npy version 9; allowed: 1, 2, 3"),
        (mocker_with("prefill_isl", header(&" ".repeat(MAX_HEADER_BYTES + 1))), "array `prefill_isl`: has a header of 10001 bytes; allowed: up to 10000"),
        (mocker_with("prefill_isl", b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec()), "array `prefill_isl`: has a header of 4294967295 bytes; allowed: up to 10000"),
        (mocker_with("prefill_isl", header("{'descr': '<f8'}")), "array `prefill_isl`: has no `fortran_order` in its header"),
        (mocker_with("prefill_isl", npy("<c16", "False", "(1,)", &[0; 16])), "array `prefill_isl`: has element type `<c16`; allowed: f8 f4 i8 i4 i2 i1 u8 u4 u2 u1 after `<` or `>`"),
        (mocker_with("prefill_isl", npy("|O", "False", "(1,)", &[0; 8])), "array `prefill_isl`: has element type `|O`; allowed: f8 f4 i8 i4 i2 i1 u8 u4 u2 u1 after `<` or `>`"),
        (mocker_with("prefill_isl", npy("<f8", "False", "(3,)", &[0; 16])), "array `prefill_isl`: has 16 bytes of data; its header says 24"),
        (mocker_with("prefill_isl", npy("<f8", "False", "(99999999999,)", &[])), "array `prefill_isl`: has shape [99999999999]; allowed: up to 1048576 elements"),
        (mocker_with("prefill_isl", npy("<f8", "False", "(1, 1, 1)", &[0; 8])), "array `prefill_isl`: has 3 dimensions; allowed: up to 2"),
        (mocker_with("prefill_isl", matrix(&[1.0, 2.0], 2, 1)), "array `prefill_isl` has shape [2, 1]; allowed: one dimension"),
        (mocker_with("prefill_isl", vector(&[])), "`prefill_isl` has 0 values; allowed: at least 2"),
        (mocker_with("prefill_isl", vector(&[1.0])), "`prefill_isl` has 1 values; allowed: at least 2"),
        (mocker_with("prefill_isl", vector(&[2.0, 1.0])), "`prefill_isl` is not strictly increasing: value 1 is 1 after 2"),
        (mocker_with("prefill_isl", vector(&[2.0, 2.0])), "`prefill_isl` is not strictly increasing: value 1 is 2 after 2"),
        (mocker_with("prefill_isl", vector(&[2.0, f64::NAN])), "`prefill_isl` value 1 is NaN; allowed: finite numbers"),
        (mocker_with("prefill_ttft_ms", vector(&[1.0, f64::INFINITY])), "`prefill_ttft_ms` value 1 is inf; allowed: finite numbers"),
        (mocker_with("prefill_ttft_ms", vector(&[1.0, 2.0, 3.0])), "`prefill_ttft_ms` has shape [3]; the axes ask for [2]"),
        (mocker_with("decode_itl", matrix(&[1.0; 6], 3, 2)), "`decode_itl` has shape [3, 2]; the axes ask for [2, 3]"),
        (mocker_with("decode_itl", vector(&[1.0; 6])), "`decode_itl` has shape [6]; the axes ask for [2, 3]"),
    ]
}

#[test]
fn every_refused_file_is_named_with_what_is_wrong() {
    for (bytes, message) in bad_files() {
        let error = load_from(&Files::from([("a.npz", bytes)]), "a.npz").unwrap_err();
        assert_eq!(error.to_string(), format!("profile `a.npz`: {message}"));
    }
}

/// Refused sample folders: prefill file, decode file, message.
#[rustfmt::skip]
const BAD_FOLDERS: &[(&str, &str, &str)] = &[
    ("[", DECODE_JSON, "profile `p/prefill_raw_data.json`: not JSON: EOF while parsing a list at line 1 column 1"),
    ("[]", DECODE_JSON, "profile `p/prefill_raw_data.json`: `prefill_isl` is missing; allowed: a number or a list of numbers"),
    (r#"{"prefill_isl": [1, "2"]}"#, DECODE_JSON, "profile `p/prefill_raw_data.json`: `prefill_isl` is a list with something else than numbers; allowed: a number or a list of numbers"),
    (r#"{"prefill_isl": "all"}"#, DECODE_JSON, "profile `p/prefill_raw_data.json`: `prefill_isl` is no number; allowed: a number or a list of numbers"),
    (r#"{"prefill_isl": 5}"#, DECODE_JSON, "profile `p/prefill_raw_data.json`: array `prefill_isl` has shape []; allowed: one dimension"),
    (PREFILL_JSON, r#"{"x_kv_usage": [1], "y_context_length": [1], "z_itl": [1], "max_kv_tokens": [1, 2]}"#, "profile `p/decode_raw_data.json`: array `max_kv_tokens` has shape [2]; allowed: one number"),
    (r#"{"prefill_isl": [1, 2], "prefill_ttft": [1]}"#, DECODE_JSON, "profile `p`: `prefill_ttft` has 1 values, `prefill_isl` has 2; allowed: equally many"),
    (r#"{"prefill_isl": [1, 1], "prefill_ttft": [1, 2]}"#, DECODE_JSON, "profile `p`: the samples of `prefill_ttft` do not determine a line; needed: two different prompt lengths"),
    (r#"{"prefill_isl": [1, 2], "prefill_ttft": [2, 1]}"#, DECODE_JSON, "profile `p`: `prefill_ttft` falls with the prompt length (fitted slope -1.000e0 ms); allowed: slopes of at least 0"),
    (r#"{"prefill_isl": [-1, 2], "prefill_ttft": [2, 1]}"#, DECODE_JSON, "profile `p`: `prefill_isl` value 0 is -1; allowed: 0 to 1e12 tokens"),
    (PREFILL_JSON, r#"{"x_kv_usage": [1], "y_context_length": [1], "z_itl": [1], "max_kv_tokens": 0}"#, "profile `p`: `max_kv_tokens` value 0 is 0; allowed: 1 to 1e12 tokens"),
    (PREFILL_JSON, r#"{"x_kv_usage": [1.5], "y_context_length": [1], "z_itl": [1], "max_kv_tokens": 1}"#, "profile `p`: `x_kv_usage` value 0 is 1.5; allowed: 0 to 1"),
    (PREFILL_JSON, r#"{"x_kv_usage": [1], "y_context_length": [0], "z_itl": [1], "max_kv_tokens": 1}"#, "profile `p`: `y_context_length` value 0 is 0; allowed: 1 to 1e12 tokens"),
    (PREFILL_JSON, r#"{"x_kv_usage": [1], "y_context_length": [1, 2], "z_itl": [1], "max_kv_tokens": 1}"#, "profile `p`: `y_context_length` has 2 values, `x_kv_usage` has 1; allowed: equally many"),
    (PREFILL_JSON, r#"{"x_kv_usage": [0.1, 0.8, 0.2, 0.9], "y_context_length": [100, 100, 500, 500], "z_itl": [10, 52, 8, 4], "max_kv_tokens": 10000}"#, "profile `p`: `z_itl` falls with the number of KV tokens (fitted slope -1.666e-3 ms); allowed: slopes of at least 0"),
    (PREFILL_JSON, r#"{"x_kv_usage": [0.1, 0.8], "y_context_length": [100, 100], "z_itl": [1, 2], "max_kv_tokens": 10000}"#, "profile `p`: the samples of `z_itl` do not determine a plane; needed: three samples whose batch sizes and KV tokens are not proportional"),
];

#[test]
fn every_refused_folder_is_named_with_what_is_wrong() {
    for &(prefill, decode, message) in BAD_FOLDERS {
        let error = load_from(&folder(prefill, decode), "p").unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn paths_that_lead_nowhere_are_named() {
    let half = Files::from([("p/selected_decode_interpolation/raw_data.npz", decode_npz())]);
    let other = Files::from([("p/notes.txt", vec![])]);
    let allowed = "allowed: a mocker .npz file, a profiler folder with selected_prefill_interpolation/raw_data.npz and \
                   selected_decode_interpolation/raw_data.npz, a folder with prefill_raw_data.json and \
                   decode_raw_data.json, or the built-in `H200_TP1P_TP1D`";
    for (files, path, message) in [
        (Files::new(), "H100", format!("profile `H100` does not exist; {allowed}")),
        (
            half,
            "p",
            "profile file `p/selected_prefill_interpolation/raw_data.npz` is missing beside \
             `p/selected_decode_interpolation/raw_data.npz`"
                .to_string(),
        ),
        (
            other,
            "p",
            "profile folder `p` has neither selected_prefill_interpolation/raw_data.npz with \
             selected_decode_interpolation/raw_data.npz nor prefill_raw_data.json with decode_raw_data.json"
                .to_string(),
        ),
        (
            Files::new(),
            "locked",
            "profile file `locked/selected_prefill_interpolation/raw_data.npz` cannot be read".to_string(),
        ),
    ] {
        assert_eq!(load_from(&files, path).unwrap_err().to_string(), message);
    }
}
