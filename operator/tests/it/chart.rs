//! The chart, rendered and installed by Helm.

mod installed;
mod rendered;
mod roles;
mod values;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::manifests::folder;

/// The version of Kubernetes that is rendered for.
const KUBERNETES: &str = "1.35.4";
/// Where releases are.
const NAMESPACE: &str = "dynosim-system";

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/dynosim")
}

/// One of the files with values.
fn file(name: &str) -> String {
    folder("values").join(name).display().to_string()
}

/// Helm with no settings but its arguments.
fn helm(program: &Path, args: &[&str]) -> Output {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("helm");
    let mut command = Command::new(program);
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(variable, &home);
    }
    command.args(args).output().expect("helm starts")
}

/// What the chart renders, or what Helm says against it. None if the test is to be skipped.
fn template(args: &[&str]) -> Option<Result<String, String>> {
    let program = dynosim_peers::helm()?;
    let chart = chart().display().to_string();
    let mut all = vec!["template", "dynosim", &chart, "--namespace", NAMESPACE, "--kube-version", KUBERNETES];
    all.extend(args);
    let output = helm(&program, &all);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) })
}

/// The objects of a text, of one kind or of all.
fn objects(yaml: &str, kind: Option<&str>) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{error}: {yaml}"));
    let wanted = |object: &Value| !object.is_null() && kind.is_none_or(|kind| object["kind"] == kind);
    all.into_iter().filter(wanted).collect()
}

/// The only object of a kind.
fn only(yaml: &str, kind: &str) -> Value {
    let mut found = objects(yaml, Some(kind));
    assert_eq!(found.len(), 1, "{kind}: {found:?}");
    found.remove(0)
}
