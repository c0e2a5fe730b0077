//! Objects on a real API server: it takes them as they are, and nothing of them changes when they are applied again.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use dynosim_api::crd;
use dynosim_operator::{Observed, build};
use dynosim_peers::ApiServer;
use serde_json::Value;

use crate::manifests::{config, folder, graphs, objects, shape, valid};
use crate::properties;

/// Manifests changed at random that are tried.
const MANIFESTS: usize = 300;
/// Of these, how many in one go.
const AT_ONCE: usize = 25;

/// An API server that knows the kinds of all children; none if the test is to be skipped.
pub(crate) fn server() -> Option<&'static ApiServer> {
    static PREPARED: OnceLock<()> = OnceLock::new();
    let api = ApiServer::shared()?;
    PREPARED.get_or_init(|| {
        prepare(api);
        api.kubectl(&["create", "namespace", "test"]);
    });
    Some(api)
}

/// Makes the kinds of all children known.
pub(crate) fn prepare(api: &ApiServer) {
    for mut definition in crd::definitions() {
        // Without a webhook there is one version.
        definition.spec.conversion = None;
        definition.spec.versions.retain(|version| version.name == "v1beta1");
        if let [version] = &mut definition.spec.versions[..] {
            version.storage = true;
            api.apply(&crd::yaml(&definition));
        }
    }
    api.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
}

/// Applies objects as the operator does; gives what the server has then, or what it refuses or warns of.
fn apply(api: &ApiServer, objects: &[Value], flags: &[&str]) -> Result<Vec<Value>, String> {
    apply_as(api, &api.kubeconfig(), objects, flags)
}

/// The same with the rights of a user.
pub(crate) fn apply_as(
    api: &ApiServer,
    kubeconfig: &Path,
    objects: &[Value],
    flags: &[&str],
) -> Result<Vec<Value>, String> {
    let mut command = Command::new(api.programs().join("kubectl"));
    command.arg("--kubeconfig").arg(kubeconfig);
    command.args(["apply", "--server-side", "--field-manager=dynosim-operator", "--validate=strict", "--output=json"]);
    command.args(flags).arg("--filename=-").env("HOME", env!("CARGO_TARGET_TMPDIR"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kubectl starts");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let mut input = child.stdin.take().expect("its input");
    let writer = std::thread::spawn(move || input.write_all(list.to_string().as_bytes()));
    let output = child.wait_with_output().expect("kubectl ends");
    writer.join().expect("written").expect("kubectl reads");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() || !said.is_empty() {
        return Err(said);
    }
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    Ok(found["items"].as_array().cloned().unwrap_or_else(|| vec![found]))
}

#[test]
fn the_objects_of_every_shape_are_taken_and_stay_as_they_are() {
    let Some(api) = server() else { return };
    let config = config();
    let mut names: Vec<_> =
        std::fs::read_dir(folder("shapes")).expect("shapes").map(|entry| entry.expect("a file").file_name()).collect();
    names.sort();
    for name in names {
        let name = name.into_string().expect("text");
        for graph in graphs(&shape(&name)) {
            let valid = valid(&graph, &config).expect("valid");
            let mut all = objects(&build(&valid.graph, &Observed::default(), &config).children);
            // The shapes of both versions have the same names; selectors of Deployments cannot change.
            for object in &mut all {
                object["metadata"]["annotations"]["shape"] = name.clone().into();
            }
            let versions = |found: Vec<Value>| -> Vec<Value> {
                found.iter().map(|object| object["metadata"]["resourceVersion"].clone()).collect()
            };
            // Volume claims are completed by the server when they are updated for the first time.
            let apply = || apply(api, &all, &[]).unwrap_or_else(|said| panic!("{name}: {said}"));
            assert_eq!(apply().len(), all.len());
            let (second, third) = (apply(), apply());
            assert_eq!(versions(second), versions(third), "{name}: the same objects once more are no writes");
        }
    }
}

#[test]
fn what_is_let_through_is_taken() {
    let Some(api) = server() else { return };
    let config = config();
    let manifests = properties::valid_manifests(MANIFESTS);
    // Nothing is kept, so that objects of the same name are in nobody's way.
    for some in manifests.chunks(AT_ONCE) {
        let graphs = some.iter().map(|graph| valid(graph, &config).expect("valid").graph);
        let built = graphs.map(|graph| build(&graph, &Observed::default(), &config).children);
        let all: Vec<_> = built.flat_map(|children| objects(&children)).collect();
        if let Err(said) = apply(api, &all, &["--dry-run=server"]) {
            panic!("{said}");
        }
    }
}
