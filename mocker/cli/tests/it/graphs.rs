//! `dynosim replay -f`: the graph of a manifest, and what is said about one that cannot be simulated.

use std::path::Path;

use crate::place::{Place, number};
use crate::refused::{SMALL, Table};

/// A manifest of the examples.
fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/backends/mocker/deploy");
    std::fs::read_to_string(folder.join(name)).expect("an example")
}

const PROFILE: &str = "/workspace/components/src/dynamo/planner/tests/data/profiling_results/H200_TP1P_TP1D";
const LOAD: [&str; 8] =
    ["--input-tokens", "1000", "--output-tokens", "20", "--request-count", "30", "--arrival-interval-ms", "40"];

#[test]
fn an_aggregated_graph_is_the_same_as_its_engine_arguments() {
    let place = Place::new();
    place.file("agg.yaml", example("agg.yaml").replace("replicas: 1", "replicas: 2"));
    let graph = place.rows(&[&["-f", "agg.yaml"], &LOAD[..]].concat());
    let args = format!(r#"{{"planner_profile_data":"{PROFILE}"}}"#);
    let flags = place.rows(&[&["--num-workers", "2", "--extra-engine-args", &args], &LOAD[..]].concat());
    assert_eq!(graph, flags);
    assert_eq!(graph.len(), 30);
}

#[test]
fn a_disaggregated_graph_is_the_same_as_the_engine_arguments_of_both_pools() {
    let place = Place::new();
    let manifest = example("disagg.yaml").replace(
        "                - prefill\n",
        "                - prefill\n                - --kv-transfer-bandwidth\n                - \"64\"\n",
    );
    place.file("disagg.yaml", manifest);
    let graph = place.rows(&[&["-f", "disagg.yaml"], &LOAD[..]].concat());
    let args =
        |role: &str, more: &str| format!(r#"{{"worker_type":"{role}","planner_profile_data":"{PROFILE}"{more}}}"#);
    // Of the built-in model.
    let prefill = args("prefill", r#","kv_transfer_bandwidth":64,"kv_bytes_per_token":131072"#);
    let decode = args("decode", "");
    let pools = ["--prefill-engine-args", &prefill, "--decode-engine-args", &decode];
    assert_eq!(graph, place.rows(&[&pools, &LOAD[..]].concat()));
    // 1000 · 131072 bytes / 64 GB/s
    let row = &graph[0];
    let travelled = number(row, "destination_activated_ms") - number(row, "destination_reserved_ms");
    assert!((travelled - 2.048).abs() < 1e-6, "{travelled}");
}

#[test]
fn the_router_is_the_frontends() {
    let place = Place::new();
    let flags = "              args: [--router-mode, kv, --router-temperature, \"0.5\", --no-router-kv-events]\n";
    let image = "              image: dynosim:latest\n";
    let manifest =
        example("agg.yaml").replacen(image, &format!("{image}{flags}"), 1).replace("replicas: 1", "replicas: 3");
    place.file("agg.yaml", manifest);
    let load = [&LOAD[..], &["--shared-prefix-ratio", "0.5", "--num-prefix-groups", "3"]].concat();
    let ran = place.run(
        &[&["replay", "-f", "agg.yaml", "--report-jsonl", "graph.jsonl", "--report-json", "r"], &load[..]].concat(),
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stderr, "note: 3 frontends act as one, which sees all requests\n");
    let config = r#"{"router_temperature":0.5,"use_kv_events":false}"#;
    let args = format!(r#"{{"planner_profile_data":"{PROFILE}"}}"#);
    let router = ["--router-mode", "kv_router", "--router-config", config, "--num-workers", "3"];
    let flags = place.rows(&[&router[..], &["--extra-engine-args", &args], &load].concat());
    assert_eq!(place.jsonl("graph.jsonl"), flags);
}

#[test]
fn what_cannot_be_simulated_is_named() {
    let place = Place::new();
    let (agg, disagg) = (example("agg.yaml"), example("disagg.yaml"));
    place.file("agg.yaml", &agg);
    place.file(
        "random.yaml",
        agg.replacen("image: dynosim:latest", "image: dynosim:latest\n              args: [--router-mode, random]", 1),
    );
    place.file("alone.yaml", disagg.replace("                - decode\n", "                - prefill\n"));
    place.file(
        "differs.yaml",
        disagg.replace(
            "                - prefill\n",
            "                - prefill\n                - --block-size\n                - \"32\"\n",
        ),
    );
    let mut table = Table::default();
    for (file, flags, message) in [
        ("agg.yaml", &["--num-workers", "2"][..], "--num-workers: has no effect with --file, whose manifest says it"),
        (
            "agg.yaml",
            &["--router-mode", "kv_router"],
            "--router-mode: has no effect with --file, whose manifest says it",
        ),
        (
            "agg.yaml",
            &["--extra-engine-args", "{}"],
            "--extra-engine-args: has no effect with --file, whose manifest says it",
        ),
        ("agg.yaml", &["--explain-request", "0"], "--explain-request: has no effect without --router-mode kv_router"),
        (
            "random.yaml",
            &[],
            "mocker-agg/Frontend-0: router mode `random` cannot be simulated (allowed: round-robin, kv)",
        ),
        ("alone.yaml", &[], "mocker-disagg/decode: prefill workers need decode workers beside them"),
        ("differs.yaml", &[], "mocker-disagg/decode: block_size: 64 differs from the 32 of mocker-disagg/prefill"),
    ] {
        table.row(&place, &[&["replay", "-q", "-f", file], flags, &SMALL].concat(), message);
    }
    table.finish(7);
}
