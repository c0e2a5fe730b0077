//! `dynosim up`: manifests that serve, and those that cannot.

use dynosim_peers::{Process, clients, free_port, http, wait_until};

use crate::place::{Place, Ran, dynosim};

const BINARY: &str = env!("CARGO_BIN_EXE_dynosim");

fn example(name: &str) -> String {
    format!("{}/../../examples/backends/mocker/deploy/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Serves an example while a command runs.
fn up(place: &Place, name: &str, command: &[&str]) -> Ran {
    let file = example(name);
    let mut run = dynosim();
    run.args(["up", "-f", &file, "--http-port", "0", "--"]).args(command).env("DYN_LOG", "warn");
    place.run_command(run)
}

/// A load of six requests, which writes `report.json`.
const LOAD: [&str; 12] = [
    "load",
    "--input-tokens",
    "200",
    "--output-tokens",
    "5",
    "--request-count",
    "6",
    "--replay-concurrency",
    "2",
    "--quiet",
    "--report-json",
    "report.json",
];

/// What the load reports.
fn assert_served(place: &Place, name: &str) {
    let report = place.json("report.json");
    assert_eq!((&report["completed_requests"], &report["total_output_tokens"]), (&6.into(), &30.into()), "{name}");
}

#[test]
fn every_example_serves_a_load_and_stops_with_it() {
    for name in ["agg.yaml", "disagg.yaml", "v1alpha1/agg.yaml", "v1alpha1/disagg.yaml"] {
        let place = Place::new();
        let ran = up(&place, name, &[&[BINARY], &LOAD[..]].concat());
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        assert_served(&place, name);
        assert!(ran.stdout.contains("http://127.0.0.1:"), "{}", ran.stdout);
    }
}

#[test]
fn a_manifest_with_the_kv_router_serves_a_load_and_refuses_bad_settings() {
    for name in ["agg.yaml", "disagg.yaml"] {
        let place = Place::new();
        let manifest = std::fs::read_to_string(example(name)).expect("the example");
        let with = |args: &str| {
            let image = "              image: dynosim:latest\n";
            assert!(manifest.contains(image));
            // The first container is the frontend's.
            manifest.replacen(image, &format!("{image}              args: [{args}]\n"), 1)
        };
        place.file("graph.yaml", with("--router-mode, kv, --router-temperature, \"0.1\""));
        place.file("bad.yaml", with("--router-mode, kv, --router-temperature, \"-1\""));
        let up = |file: &str| {
            let mut run = dynosim();
            run.args(["up", "-f"]).arg(place.path(file)).args(["--http-port", "0", "--", BINARY]).args(LOAD);
            place.run_command(run)
        };
        let ran = up("graph.yaml");
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        assert_served(&place, name);
        let ran = up("bad.yaml");
        assert_eq!(ran.code, Some(2), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains("--router-temperature: `-1` cannot be used"), "{}", ran.stderr);
    }
}

#[test]
fn replicas_can_be_processes_of_their_own_and_end_with_the_graph() {
    for name in ["agg.yaml", "disagg.yaml"] {
        let (place, port) = (Place::new(), free_port());
        let mut run = dynosim();
        run.args(["up", "-f", &example(name), "--http-port", &port.to_string(), "--processes"]).env("DYN_LOG", "warn");
        let mut graph = Process::start(&mut run, &place.path("log"));
        let listed = || http(port, "GET", "/v1/models", "").is_ok_and(|answer| answer.contains("Llama"));
        wait_until("the model is listed", listed);
        let ran = place.run(&[&LOAD[..], &["--url", &format!("http://127.0.0.1:{port}")]].concat());
        assert_eq!(ran.code, Some(0), "{name}: {} {}", ran.stderr, graph.log());
        assert_served(&place, name);
        assert!(graph.terminate().success(), "{}", graph.log());
        assert!(http(port, "GET", "/live", "").is_err(), "the frontend has ended");
    }
}

/// Processes whose parent is `parent` and that have not ended.
fn children(parent: u32) -> Vec<u32> {
    let ids = std::fs::read_dir("/proc")
        .expect("processes")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|&id| state(id).is_some_and(|(_, its)| its == parent)).collect()
}

/// State and parent of a process, none if it has ended.
fn state(id: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before them may have spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next().filter(|&state| state != 'Z')?;
    Some((state, fields.next()?.parse().ok()?))
}

#[test]
fn processes_end_when_the_graph_is_killed() {
    let (place, port) = (Place::new(), free_port());
    let mut run = dynosim();
    run.args(["up", "-f", &example("disagg.yaml"), "--http-port", &port.to_string(), "--processes"]);
    let mut graph = Process::start(&mut run, &place.path("log"));
    wait_until("all replicas run", || children(graph.id()).len() == 3);
    // One of them may not have asked yet to be told of the end, and must see it by itself.
    let replicas = children(graph.id());
    graph.kill();
    wait_until("they have ended", || replicas.iter().all(|&id| state(id).is_none()));
}

#[test]
fn a_replica_whose_graph_has_gone_does_not_start() {
    for command in ["mocker", "frontend"] {
        let mut run = dynosim();
        run.args([command, "--discovery-backend", "mem"]).env("DYNOSIM_PARENT", i32::MAX.to_string());
        if command == "mocker" {
            run.args(["--model-path", "m"]);
        }
        let ran = Place::new().run_command(run);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{command}: {}", ran.stderr);
    }
}

/// Each stream takes three descriptors in a graph of one process.
#[test]
fn a_low_limit_of_open_files_is_raised() {
    let place = Place::new();
    let mut run = std::process::Command::new("sh");
    run.args(["-c", "ulimit -Sn 128; exec \"$@\"", "sh", BINARY, "up", "-f", &example("agg.yaml"), "--http-port", "0"])
        .args(["--", BINARY, "load", "--input-tokens", "20", "--output-tokens", "50", "--request-count", "300"])
        .args(["--replay-concurrency", "300", "--quiet", "--report-json", "report.json"]);
    let ran = place.run_command(run);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(place.json("report.json")["completed_requests"], 300, "{}", ran.stderr);
}

#[test]
fn the_exit_code_of_the_command_is_that_of_the_graph() {
    let ran = up(&Place::new(), "agg.yaml", &["sh", "-c", "exit 7"]);
    assert_eq!(ran.code, Some(7), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("error: sh: exit status: 7\n"), "{}", ran.stderr);
}

#[test]
fn manifests_that_cannot_run_are_refused_before_anything_starts() {
    let place = Place::new();
    let graph = |args: &str| {
        format!(
            "{{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {{name: g}}, spec: {{components: \
             [{{name: w, type: worker, podTemplate: {{spec: {{containers: [{{name: main, args: [{args}]}}]}}}}}}]}}}}"
        )
    };
    place.file("none.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: p}}");
    place.file("bad.yaml", "a: [");
    place.file("flag.yaml", graph("--model-path, m, --no-such-flag"));
    place.file("value.yaml", graph("--model-path, m, --block-size, x"));
    for (file, message) in [
        ("missing.yaml", "missing.yaml: "),
        ("none.yaml", "the manifest has no DynamoGraphDeployment"),
        ("bad.yaml", "bad.yaml: "),
        ("flag.yaml", "g/w-0: unexpected argument '--no-such-flag' found"),
        ("value.yaml", "g/w-0: invalid value 'x' for '--block-size"),
    ] {
        let ran = place.run(&["up", "-f", file]);
        assert!(matches!(ran.code, Some(2 | 4)), "{file}: {ran:?}");
        assert!(ran.stderr.starts_with(&format!("error: {message}")), "{file}: {}", ran.stderr);
    }
}

const OPENAI: &str = r#"
import os, urllib.request
from openai import OpenAI, BadRequestError, NotFoundError
from prometheus_client.parser import text_string_to_metric_families
url = os.environ["DYNOSIM_URL"]
client = OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
model = client.models.list().data[0].id
prompt = [{"role": "user", "content": "word " * 100}]
ask = lambda **more: client.chat.completions.create(model=model, messages=prompt, max_tokens=8, **more)
first, second = ask(), ask()
assert first.usage.completion_tokens == 8 and first.choices[0].finish_reason == "length", first
assert second.usage.prompt_tokens_details.cached_tokens > 0, second.usage
chunks = list(ask(stream=True, stream_options={"include_usage": True}))
assert chunks[-1].usage.completion_tokens == 8 and not chunks[-1].choices, chunks[-1]
assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices), chunks
text = client.completions.create(model=model, prompt="a", max_tokens=3)
assert text.usage.total_tokens == 4, text
for kind, call in [(NotFoundError, lambda: client.completions.create(model="no", prompt="a")), (BadRequestError, lambda: ask(n=2))]:
    try: call()
    except kind as error: assert error.body["message"], error
    else: raise AssertionError(kind)
families = {f.name: f for f in text_string_to_metric_families(urllib.request.urlopen(url + "/metrics").read().decode())}
assert any(name.startswith("dynamo_frontend_") for name in families), families
print("clients are content")
"#;

#[test]
fn the_openai_client_and_the_prometheus_parser_take_what_is_served() {
    let Some(python) = clients() else { return };
    let place = Place::new();
    place.file("client.py", OPENAI);
    for name in ["agg.yaml", "disagg.yaml"] {
        let ran = up(&place, name, &[python.to_str().expect("a path in UTF-8"), "client.py"]);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        assert!(ran.stdout.contains("clients are content"), "{name}: {}", ran.stdout);
    }
}
