//! What is printed, and where.

use std::io::Read;
use std::process::Stdio;

use crate::golden;
use crate::place::{Place, dynosim};
use crate::refused::SMALL;

/// Standard output with the host's time masked.
fn masked(stdout: &str) -> String {
    let lines = stdout.lines().map(|line| match line.strip_prefix("Wall Time (ms): ") {
        Some(time) if time.bytes().all(|byte| byte.is_ascii_digit() || b",.".contains(&byte)) => "Wall Time (ms): X",
        _ => line,
    });
    lines.map(|line| line.to_owned() + "\n").collect()
}

#[test]
fn the_table_looks_as_ever() {
    let args = ["replay", "--input-tokens", "1000", "--output-tokens", "50", "--request-count", "20"];
    let ran = Place::new().run(&[&args[..], &["--replay-concurrency", "4", "--report-json", "report.json"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    golden::assert_equal(&golden::file("table.txt"), &masked(&ran.stdout));
}

#[test]
fn the_table_tells_of_rejections_and_the_service_level() {
    let place = Place::new();
    let row = |ids: &str| format!("{{\"timestamp\":0,\"output_length\":20,\"hash_ids\":{ids}}}\n");
    place.file("trace.jsonl", [row("[1]"), row("[1,2,3]"), row("[2]")].concat());
    let args = ["replay", "trace.jsonl", "--extra-engine-args", r#"{"num_gpu_blocks":20}"#];
    let ran = place.run(&[&args[..], &["--sla-e2e-ms", "5000", "--report-json", "report.json"]].concat());
    golden::assert_equal(&golden::file("table_rejected_sla.txt"), &masked(&ran.stdout));
}

#[test]
fn quiet_prints_nothing_and_writes_the_report() {
    let place = Place::new();
    for (flag, file) in [("--quiet", "long"), ("-q", "short")] {
        let ran = place.run(&[&["replay", flag, "--check-determinism", "--report-json", file], &SMALL[..]].concat());
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
    }
    assert_eq!(place.names(), ["long", "short"]);
}

#[test]
fn quiet_still_tells_errors() {
    let ran = Place::new().run(&["replay", "--quiet", "nowhere.jsonl"]);
    let message = "error: nowhere.jsonl: No such file or directory (os error 2)\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(2), "", message));
}

#[test]
fn pipes_get_no_escape_codes_and_no_progress_with_or_without_no_color() {
    let place = Place::new();
    let replay = [&["replay", "--report-json", "report.json"], &SMALL[..]].concat();
    for args in [&replay[..], &["--help"], &["replay", "--help"], &["replay", "--bad"], &["trace"]] {
        let plain = place.run(args);
        let mut command = dynosim();
        command.args(args).env("NO_COLOR", "1");
        let no_color = place.run_command(command);
        assert!(!(plain.stdout + &plain.stderr).contains(['\x1b', '\r']), "{args:?}");
        assert!(!(no_color.stdout + &no_color.stderr).contains(['\x1b', '\r']), "{args:?}");
    }
}

#[test]
fn a_run_of_more_than_a_second_shows_no_progress_in_a_pipe() {
    let place = Place::new();
    place.run(&["trace", "generate", "-o", "trace.jsonl", "--requests", "20000"]);
    let ran = place.run(&["replay", "trace.jsonl", "--num-workers", "4", "--report-json", "report.json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let place = Place::new();
    place.file("trace.jsonl", r#"{"timestamp":0,"output_length":1,"hash_ids":[1]}"#);
    let replay = [&["replay", "--report-json", "report.json"], &SMALL[..]].concat();
    let generate = ["trace", "generate", "-o", "-", "--requests", "5000"];
    for args in [&replay[..], &["trace", "stats", "trace.jsonl"], &generate, &["--help"]] {
        let mut command = dynosim();
        command.args(args).current_dir(place.path("")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""), "{args:?}");
    }
    assert!(place.names().contains(&"report.json".to_owned()));
}

#[test]
fn flags_that_change_nothing_are_noted() {
    let place = Place::new();
    for (flags, note) in [
        (["--shared-prefix-ratio", "0.5"], "--shared-prefix-ratio has no effect without --num-prefix-groups"),
        (["--inter-turn-delay-ms", "5"], "--inter-turn-delay-ms has no effect with one turn per session"),
    ] {
        let ran = place.run(&[&["replay", "--report-json", "report.json"], &SMALL[..], &flags].concat());
        assert_eq!((ran.code, ran.stderr), (Some(0), format!("note: {note}\n")));
    }
}

#[test]
fn version_is_printed() {
    let ran = Place::new().run(&["--version"]);
    assert_eq!(ran.stdout, format!("dynosim {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}
