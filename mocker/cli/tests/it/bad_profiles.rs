//! Timing profiles that cannot be used, and one that can.

use crate::npz::{flat_profile, matrix, npz, vector};
use crate::place::{Place, assert_close, number};
use crate::refused::{SMALL, Table};

/// `replay` of a small workload with the profile at `path`.
fn args(json: &str) -> Vec<&str> {
    [&["replay"], &SMALL[..], &["--extra-engine-args", json]].concat()
}

fn with(name: &str, bytes: Vec<u8>) -> Vec<u8> {
    let mut arrays = flat_profile(10.0, 2.0);
    arrays.iter_mut().find(|(array, _)| *array == name).expect("an array of the profile").1 = bytes;
    npz(&arrays)
}

/// Files and the message after "profile `p.npz`: ".
#[rustfmt::skip]
fn bad_files() -> Vec<(Vec<u8>, &'static str)> {
    let whole = npz(&flat_profile(10.0, 2.0));
    let mut corrupt = whole.clone();
    let at = corrupt.windows(6).position(|window| window == b"\x93NUMPY").expect("an array");
    corrupt[at + 78] ^= 1;
    vec![
        (vec![], "not an .npz archive (invalid Zip archive: Could not find EOCD)"),
        (b"isl,ttft\n1,2\n".to_vec(), "not an .npz archive (invalid Zip archive: Could not find EOCD)"),
        (whole[..whole.len() / 2].to_vec(), "not an .npz archive (invalid Zip archive: Could not find EOCD)"),
        (corrupt, "array `prefill_isl`: cannot be unpacked (Invalid checksum)"),
        (npz(&flat_profile(10.0, 2.0)[..3]), "array `decode_context_length` is missing; found: decode_active_kv_tokens, prefill_isl, prefill_ttft_ms"),
        (with("prefill_isl", b"1, 2".to_vec()), "array `prefill_isl`: does not start like a .npy file"),
        (with("prefill_isl", vector(&[1.0])), "`prefill_isl` has 1 values; allowed: at least 2"),
        (with("prefill_isl", vector(&[2.0, 1.0])), "`prefill_isl` is not strictly increasing: value 1 is 1 after 2"),
        (with("prefill_ttft_ms", vector(&[1.0, f64::NAN])), "`prefill_ttft_ms` value 1 is NaN; allowed: finite numbers"),
        (with("decode_itl", matrix(4, 1, &[2.0; 4])), "`decode_itl` has shape [4, 1]; the axes ask for [2, 2]"),
    ]
}

#[test]
fn bad_profile_files_are_named_with_what_is_wrong() {
    let mut table = Table::default();
    for (bytes, message) in bad_files() {
        let place = Place::new();
        place.file("p.npz", bytes);
        let args = args(r#"{"planner_profile_data":"p.npz"}"#);
        table.row(&place, &args, &format!("--extra-engine-args: planner_profile_data: profile `p.npz`: {message}"));
    }
    table.finish(8);
}

#[test]
fn profiles_that_are_missing_or_half_there_are_named() {
    let place = Place::new();
    place.file("half/prefill_raw_data.json", "{}").file("other/notes.txt", "");
    let mut table = Table::default();
    for (path, message) in [
        (
            "nowhere.npz",
            "profile `nowhere.npz` does not exist; allowed: a mocker .npz file, a profiler folder with \
             selected_prefill_interpolation/raw_data.npz and selected_decode_interpolation/raw_data.npz, a folder \
             with prefill_raw_data.json and decode_raw_data.json, or the built-in `H200_TP1P_TP1D`",
        ),
        ("half", "profile file `half/decode_raw_data.json` is missing beside `half/prefill_raw_data.json`"),
        (
            "other",
            "profile folder `other` has neither selected_prefill_interpolation/raw_data.npz with \
             selected_decode_interpolation/raw_data.npz nor prefill_raw_data.json with decode_raw_data.json",
        ),
    ] {
        let json = format!(r#"{{"planner_profile_data":"{path}"}}"#);
        table.row(&place, &args(&json), &format!("--extra-engine-args: planner_profile_data: {message}"));
    }
    table.finish(3);
}

#[test]
fn a_profile_sets_the_durations() {
    let place = Place::new();
    place.file("p.npz", npz(&flat_profile(40.0, 7.5)));
    let report = place.replay(&[&SMALL[..], &["--extra-engine-args", r#"{"planner_profile_data":"p.npz"}"#]].concat());
    assert_close(number(&report, "mean_ttft_ms"), 40.0);
    assert_close(number(&report, "mean_itl_ms"), 7.5);
}

#[test]
fn the_built_in_profile_needs_no_file() {
    let place = Place::new();
    let json = r#"{"planner_profile_data":"/workspace/H200_TP1P_TP1D"}"#;
    let report = place.replay(&[&SMALL[..], &["--extra-engine-args", json]].concat());
    assert!(number(&report, "mean_ttft_ms") > 0.0);
}
