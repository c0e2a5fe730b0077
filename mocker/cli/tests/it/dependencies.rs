//! Which crate may know which: the layers of the workspace, held over `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Every crate of the workspace with the workspace crates that it may depend on. A crate that is not here yet, or a new
/// edge, is a decision about the design: make it here.
const ALLOWED: [(&str, &[&str]); 15] = [
    ("dynosim-engine", &[]),
    ("dynosim-router", &["dynosim-engine"]),
    ("dynosim-planner", &["dynosim-engine"]),
    ("dynosim-workload", &["dynosim-engine"]),
    ("dynosim-replay", &["dynosim-engine", "dynosim-router", "dynosim-planner", "dynosim-workload"]),
    ("dynosim-wire", &["dynosim-engine", "dynosim-peers"]),
    ("dynosim-worker", &["dynosim-engine", "dynosim-wire", "dynosim-peers"]),
    ("dynosim-frontend", &["dynosim-engine", "dynosim-router", "dynosim-wire", "dynosim-peers"]),
    ("dynosim-load", &["dynosim-engine", "dynosim-workload", "dynosim-replay"]),
    (
        "dynosim",
        &[
            "dynosim-engine",
            "dynosim-router",
            "dynosim-planner",
            "dynosim-workload",
            "dynosim-replay",
            "dynosim-wire",
            "dynosim-worker",
            "dynosim-frontend",
            "dynosim-load",
            "dynosim-api",
            "dynosim-peers",
        ],
    ),
    ("dynosim-peers", &[]),
    ("dynosim-api", &["dynosim-peers"]),
    ("dynosim-operator", &["dynosim-api", "dynosim-peers"]),
    ("dynosim-image", &["dynosim", "dynosim-operator"]),
    ("dynosim-e2e", &["dynosim-peers"]),
];

/// The edges that must be there today, so that the test cannot pass by seeing nothing.
const TODAY: [(&str, &[&str]); 10] = [
    ("dynosim-engine", &[]),
    ("dynosim-router", &["dynosim-engine"]),
    ("dynosim-workload", &["dynosim-engine"]),
    ("dynosim-replay", &["dynosim-engine", "dynosim-router", "dynosim-workload"]),
    ("dynosim-worker", &["dynosim-engine", "dynosim-wire"]),
    ("dynosim-frontend", &["dynosim-engine", "dynosim-router", "dynosim-wire"]),
    ("dynosim-load", &["dynosim-replay", "dynosim-workload"]),
    ("dynosim-api", &[]),
    ("dynosim-operator", &["dynosim-api"]),
    (
        "dynosim",
        &[
            "dynosim-engine",
            "dynosim-router",
            "dynosim-replay",
            "dynosim-router",
            "dynosim-workload",
            "dynosim-worker",
            "dynosim-frontend",
            "dynosim-load",
            "dynosim-api",
        ],
    ),
];

/// Crates that compute and nothing else, if they exist.
const PURE: [&str; 4] = ["dynosim-engine", "dynosim-router", "dynosim-planner", "dynosim-workload"];
/// What a crate that computes never needs, not even through others.
const NEVER: [&str; 10] =
    ["tokio", "async-std", "smol", "futures", "kube", "hyper", "reqwest", "axum", "tonic", "socket2"];

fn metadata() -> Value {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    // Crates of other systems need not be there: nothing was downloaded for them.
    let args = ["metadata", "--format-version", "1", "--offline", "--all-features", "--manifest-path", manifest];
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let platform = ["--filter-platform", host.as_str()];
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo).args(args).args(platform).output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Names of the workspace's crates and, per crate, those it depends on in any way.
fn edges(metadata: &Value) -> BTreeMap<&str, BTreeSet<&str>> {
    let members: BTreeSet<_> = list(&metadata["workspace_members"]).iter().map(text).collect();
    let packages = || list(&metadata["packages"]).iter().filter(|package| members.contains(text(&package["id"])));
    let names: BTreeSet<_> = packages().map(|package| text(&package["name"])).collect();
    packages()
        .map(|package| {
            let known = list(&package["dependencies"]).iter().map(|dependency| text(&dependency["name"]));
            (text(&package["name"]), known.filter(|name| names.contains(name)).collect())
        })
        .collect()
}

#[test]
fn crates_depend_only_on_the_layers_below_them() {
    let metadata = metadata();
    let edges = edges(&metadata);
    for (name, known) in &edges {
        let Some((_, allowed)) = ALLOWED.iter().find(|(member, _)| member == name) else {
            panic!("{name} is a new crate: say in ALLOWED what it may know");
        };
        let more: Vec<_> = known.iter().filter(|other| !allowed.contains(other)).collect();
        assert!(more.is_empty(), "{name} must not depend on {more:?}");
    }
    for (name, known) in TODAY {
        let missing: Vec<_> = known.iter().filter(|other| !edges[name].contains(*other)).collect();
        assert!(missing.is_empty(), "{name} does not depend on {missing:?} any more: is metadata read right?");
    }
}

/// Names of all packages that the normal dependencies of a workspace crate lead to.
fn closure<'m>(metadata: &'m Value, name: &str) -> BTreeSet<&'m str> {
    let names: BTreeMap<_, _> =
        list(&metadata["packages"]).iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
    let nodes: BTreeMap<_, _> =
        list(&metadata["resolve"]["nodes"]).iter().map(|node| (text(&node["id"]), node)).collect();
    let start = list(&metadata["workspace_members"]).iter().map(text).find(|id| names[id] == name);
    let mut open: Vec<_> = start.into_iter().collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            let normal = |edge: &&Value| list(&edge["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            open.extend(list(&nodes[id]["deps"]).iter().filter(normal).map(|edge| text(&edge["pkg"])));
        }
    }
    seen.into_iter().map(|id| names[id]).collect()
}

#[test]
fn crates_that_compute_reach_no_runtime_network_or_cluster() {
    let metadata = metadata();
    let members = edges(&metadata);
    for name in PURE.into_iter().filter(|name| members.contains_key(name)) {
        let reached = closure(&metadata, name);
        assert!(reached.contains(name) && reached.contains("serde_json"), "{name} reaches {reached:?}");
        let found: Vec<_> = NEVER.into_iter().filter(|package| reached.contains(package)).collect();
        assert!(found.is_empty(), "{name} reaches {found:?}");
    }
}
