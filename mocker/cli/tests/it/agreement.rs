//! The same work on the published simulator, whose reports are in the folder that `DYNOSIM_SHARED` names.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::place::{Place, number};

/// Largest relative difference of a time or rate.
const TOLERANCE: f64 = 0.005;

const EQUAL: [&str; 4] = ["num_requests", "completed_requests", "total_input_tokens", "total_output_tokens"];
const CLOSE: [&str; 5] = [
    "duration_ms",
    "request_throughput_rps",
    "input_throughput_tok_s",
    "output_throughput_tok_s",
    "total_throughput_tok_s",
];

/// The folder. Once the variable is set, whatever is missing there fails the test.
pub(crate) fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("DYNOSIM_SHARED").map(PathBuf::from);
    if folder.is_none() {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        // Straight to the stream: the test harness keeps what macros print to itself.
        let line = format!("SKIPPED: {name}: DYNOSIM_SHARED is not set\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    folder
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// Runs Python, which the folder's tools are written in.
fn python(args: &[&str]) -> String {
    let output = Command::new("python3").args(args).output().expect("python3 starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// Makes the trace that the arguments of a workload name, and checks that it is the one.
fn make_trace(place: &Place, shared: &Path, traces: &Value, name: &str) {
    let (generator, file) = (shared.join("bench/gen_trace.py"), place.path(name));
    let mut args = vec![generator.to_str().expect("text"), "-o", file.to_str().expect("text")];
    args.extend(traces[name]["args"].as_array().expect("a list").iter().map(|arg| arg.as_str().expect("text")));
    python(&args);
    let digest = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())";
    assert_eq!(python(&["-c", digest, file.to_str().expect("text")]), traces[name]["sha256"]);
}

fn compare(id: &str) {
    let Some(shared) = shared() else { return };
    let list = read(&shared.join("bench/workloads.json"));
    let expected = read(&shared.join(format!("baseline/replay_161_{id}.json")))["summary"].take();
    let args = list["workloads"][id]["args"].as_array().expect("a list");
    let place = Place::new();
    let args: Vec<_> = args.iter().map(|arg| arg.as_str().expect("text").replace("{cache}/", "")).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    if !args[0].starts_with("--") {
        make_trace(&place, &shared, &list["generated_traces"], args[0]);
    }
    let found = place.replay(&args);
    for key in EQUAL {
        assert_eq!(found[key], expected[key], "{id}: {key}");
    }
    let latencies = ["ttft_ms", "itl_ms", "e2e_latency_ms"];
    let latencies =
        latencies.iter().flat_map(|name| ["mean", "median", "p99"].map(|prefix| format!("{prefix}_{name}")));
    for key in CLOSE.into_iter().map(str::to_owned).chain(latencies) {
        let (found, expected) = (number(&found, &key), number(&expected, &key));
        assert!((found / expected - 1.0).abs() <= TOLERANCE, "{id}: {key} is {found}, published {expected}");
    }
}

#[test]
fn a_vllm_worker_at_fixed_concurrency_agrees_with_the_published_simulator() {
    compare("a");
}

#[test]
fn an_sglang_worker_at_fixed_concurrency_agrees_with_the_published_simulator() {
    compare("e");
}

#[test]
fn four_workers_on_a_trace_agree_with_the_published_simulator() {
    compare("c10k_rr");
}
