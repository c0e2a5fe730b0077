//! Files, memory and formats give the same requests.

use std::io::Write;

use dynosim_workload::{
    Excess, GenerateOptions, LoopKind, RowRules, Trace, TraceFormat, TraceOptions, Workload, generate,
};

use crate::replay;

fn generated(loop_kind: LoopKind) -> Vec<u8> {
    let mut bytes = Vec::new();
    generate(&GenerateOptions { requests: 400, loop_kind, ..GenerateOptions::default() }, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_file_and_memory_give_the_same() {
    for loop_kind in [LoopKind::Open, LoopKind::Closed] {
        let bytes = generated(loop_kind);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let options = TraceOptions::default();
        let from_file = replay(&mut Trace::open(file.path(), &options).unwrap());
        let from_memory = replay(&mut Trace::from_bytes("memory", bytes, &options).unwrap());
        assert_eq!(from_file.len(), 400);
        assert_eq!(from_file, from_memory);
    }
}

#[test]
fn rows_out_of_order_give_the_same_requests_as_sorted_ones() {
    let text = String::from_utf8(generated(LoopKind::Open)).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let sorted = replay(&mut Trace::from_bytes("sorted", text.clone().into(), &TraceOptions::default()).unwrap());
    lines.reverse();
    let reversed = lines.join("\n");
    let unsorted = replay(&mut Trace::from_bytes("unsorted", reversed.into(), &TraceOptions::default()).unwrap());
    assert_eq!(sorted.len(), unsorted.len());
    for (left, right) in sorted.iter().zip(&unsorted) {
        assert_eq!((left.0, left.1.session, &left.2), (right.0, right.1.session, &right.2));
        assert_eq!(left.1.row, 399 - right.1.row);
    }
}

#[test]
fn a_file_that_shrinks_after_opening_is_noticed() {
    for loop_kind in [LoopKind::Open, LoopKind::Closed] {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&generated(loop_kind)).unwrap();
        let mut trace = Trace::open(file.path(), &TraceOptions::default()).unwrap();
        file.as_file().set_len(10).unwrap();
        let error = trace.take(&mut Vec::new()).unwrap_err().to_string();
        assert!(error.ends_with(": changed while it was being read, at row 1"), "{error}");
    }
}

#[test]
fn what_is_no_regular_file_is_read_whole_or_refused() {
    let options = TraceOptions::default();
    let empty = Trace::open("/dev/null".as_ref(), &options).unwrap_err().to_string();
    assert_eq!(empty, "/dev/null: no requests (allowed: one or more rows)");
    let folder = Trace::open("/".as_ref(), &options).unwrap_err().to_string();
    assert_eq!(folder, "/: Is a directory (os error 21)");
}

#[test]
fn prompts_cut_to_their_ids_are_counted() {
    let text = r#"
        {"timestamp":0,"input_length":2000,"output_length":1,"hash_ids":[1]}
        {"timestamp":0,"input_length":512,"output_length":1,"hash_ids":[1]}
    "#;
    let rules = RowRules { excess: Excess::Clamp, ..RowRules::default() };
    let options = TraceOptions { rules, ..TraceOptions::default() };
    let mut trace = Trace::from_bytes("trace", text.into(), &options).unwrap();
    assert_eq!(trace.clamped_rows(), 1);
    let found = replay(&mut trace);
    assert_eq!(found[0].1.input_tokens, 512);
    assert_eq!(found[0].2, found[1].2);
}

#[test]
fn azure_rows_arrive_on_time_and_share_nothing() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,130,10\r\n\r\n\
                2023-11-16 18:17:04.0319600,130,8\r\n2023-11-16 18:17:04.0000001,63,8";
    let options = TraceOptions { format: TraceFormat::Azure, ..TraceOptions::default() };
    let mut trace = Trace::from_bytes("azure.csv", text.into(), &options).unwrap();
    assert_eq!(trace.total_requests(), 3);
    let found = replay(&mut trace);
    let times: Vec<u64> = found.iter().map(|(time, ..)| time.0).collect();
    assert_eq!(times, [0, 20_040_100, 52_000_000]);
    let rows: Vec<_> = found.iter().map(|(_, turn, hashes)| (turn.row, turn.input_tokens, hashes.len())).collect();
    assert_eq!(rows, [(0, 130, 2), (2, 63, 0), (1, 130, 2)]);
    assert!(found[0].2.iter().all(|hash| !found[2].2.contains(hash)));
}

#[test]
fn a_prompt_hashes_alike_whatever_the_ids_around_it() {
    let text = r#"
        {"timestamp":0,"input_length":1024,"output_length":1,"hash_ids":[1,2]}
        {"timestamp":0,"input_length":1000,"output_length":1,"hash_ids":[1,2,3]}
        {"timestamp":0,"input_length":1024,"output_length":1,"hash_ids":[2,1]}
    "#;
    let found = replay(&mut Trace::from_bytes("trace", text.into(), &TraceOptions::default()).unwrap());
    assert_eq!(found[0].2[..15], found[1].2[..]);
    assert!(found[0].2.iter().all(|hash| !found[2].2.contains(hash)));
}
