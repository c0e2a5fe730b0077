//! Exit codes beyond "done" and "bad input": a missed service level, and files that cannot be read or written.

use crate::place::{Place, number};
use crate::refused::{SMALL, Table};

#[test]
fn a_missed_service_level_exits_with_3_after_the_report_is_written() {
    let place = Place::new();
    let args = [&["replay", "--quiet", "--report-json", "report.json", "--fail-on-sla", "0.9"], &SMALL[..]].concat();
    let ran = place.run(&[&args[..], &["--sla-ttft-ms", "0.5"]].concat());
    let message = "error: 0.0000 of the requests keep the SLA, --fail-on-sla asks for 0.9\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(3), message));
    assert_eq!(place.json("report.json")["goodput_completed_requests"], 0);
    let ran = place.run(&[&args[..], &["--sla-ttft-ms", "5000"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

#[test]
fn the_service_level_counts_all_limits_and_rejected_requests() {
    let place = Place::new();
    let row = |ids: &str| format!("{{\"timestamp\":0,\"output_length\":5,\"hash_ids\":{ids}}}\n");
    place.file("trace.jsonl", [row("[1]"), row("[2]"), row("[1,2,3]"), row("[3]")].concat());
    let run = |share: &str, itl: &str| {
        let json = r#"{"num_gpu_blocks":20,"max_num_seqs":1}"#;
        let limits = ["--sla-ttft-ms", "100000", "--sla-itl-ms", itl, "--fail-on-sla", share];
        let args = ["replay", "trace.jsonl", "-q", "--report-json", "report.json", "--extra-engine-args", json];
        place.run(&[&args[..], &limits].concat()).code
    };
    assert_eq!(run("0.75", "1000"), Some(0));
    assert_eq!(place.json("report.json")["goodput_completed_requests"], 3);
    assert_eq!(run("0.76", "1000"), Some(3));
    assert_eq!(run("0.01", "0.001"), Some(3));
}

#[test]
fn files_that_cannot_be_read_or_written_exit_with_4() {
    let place = Place::new();
    place.file("file", "").file("folder/.keep", "");
    let mut table = Table::default();
    table.exit(&place, &["replay", "folder"], 4, "folder: Is a directory (os error 21)");
    table.exit(&place, &["trace", "stats", "folder"], 4, "folder: Is a directory (os error 21)");
    let nowhere = "nowhere/out: No such file or directory (os error 2)";
    for flag in ["--report-json", "--report-jsonl"] {
        table.exit(&place, &[&["replay", flag, "nowhere/out"], &SMALL[..]].concat(), 4, nowhere);
        let args = [&["replay", flag, "file/out"], &SMALL[..]].concat();
        table.exit(&place, &args, 4, "file/out: Not a directory (os error 20)");
    }
    let args = [&["replay", "--report-jsonl", "folder"], &SMALL[..]].concat();
    table.exit(&place, &args, 4, "folder: is a directory");
    table.exit(&place, &["trace", "generate", "-o", "nowhere/out"], 4, nowhere);
    table.exit(&place, &["trace", "generate", "-o", "folder"], 4, "folder: Is a directory (os error 21)");
    table.finish(9);
}

#[test]
fn names_that_lead_nowhere_are_bad_input() {
    let place = Place::new();
    let mut table = Table::default();
    let message = "nowhere.jsonl: No such file or directory (os error 2)";
    table.row(&place, &["replay", "nowhere.jsonl"], message);
    table.row(&place, &["trace", "stats", "nowhere.jsonl"], message);
    let args = [&["replay", "--report-json", "out", "--report-jsonl", "out"], &SMALL[..]].concat();
    table.row(&place, &args, "--report-json and --report-jsonl name the same file");
    table.finish(3);
}

#[test]
fn a_report_that_cannot_be_written_is_told_before_the_workload_is_read() {
    let place = Place::new();
    place.file("bad.jsonl", "nonsense");
    let mut table = Table::default();
    let message = "nowhere/out: No such file or directory (os error 2)";
    table.exit(&place, &["replay", "bad.jsonl", "--report-json", "nowhere/out"], 4, message);
    table.exit(&place, &["replay", "bad.jsonl", "--report-jsonl", "nowhere/out"], 4, message);
    table.finish(2);
}

#[test]
fn two_runs_agree_and_say_so() {
    for engine in ["vllm", "sglang", "trtllm"] {
        let place = Place::new();
        place.run(&["trace", "generate", "-o", "trace.jsonl", "--requests", "300", "--sessions"]);
        let json = format!(r#"{{"engine_type":"{engine}","block_size":64,"num_gpu_blocks":1024}}"#);
        let args = ["replay", "trace.jsonl", "--check-determinism", "--num-workers", "2", "--extra-engine-args", &json];
        let ran = place.run(&[&args[..], &["--report-json", "report.json"]].concat());
        assert_eq!(ran.code, Some(0));
        let digest = ran.stderr.strip_prefix("note: two runs agree, digest ").unwrap().trim_end();
        assert!(digest.len() == 16 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
        assert!(number(&place.json("report.json"), "num_requests") >= 1.0);
    }
}

#[test]
fn an_async_engine_finishes_what_it_preempts_in_the_pass_that_took_it_up() {
    let place = Place::new();
    let row = |ids: &str| format!("{{\"output_length\":2,\"hash_ids\":{ids}}}\n");
    place.file("trace.jsonl", [row("[1,2,3]"), row("[9]")].concat());
    let json = r#"{"block_size":512,"num_gpu_blocks":5,"preemption_mode":"fifo","async_scheduling":true}"#;
    let report = place.replay(&["trace.jsonl", "--replay-concurrency", "2", "--extra-engine-args", json]);
    assert_eq!((&report["completed_requests"], &report["num_preemptions"]), (&2.into(), &1.into()));
}
