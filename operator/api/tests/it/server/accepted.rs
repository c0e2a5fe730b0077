//! Manifests of the shapes that people apply, which come back in both versions.

use dynosim_api::convert::{LEFTOVERS_ANNOTATION, convert};
use serde_json::{Value, json};

use super::server;

const SHAPES: [(&str, &str); 6] = [
    ("alpha-disagg", include_str!("shapes/alpha-disagg.yaml")),
    ("alpha-planner", include_str!("shapes/alpha-planner.yaml")),
    ("alpha-fields", include_str!("shapes/alpha-fields.yaml")),
    ("beta-disagg", include_str!("shapes/beta-disagg.yaml")),
    ("beta-fields", include_str!("shapes/beta-fields.yaml")),
    ("gp-ctrl", include_str!("shapes/beta-global-planner.yaml")),
];

fn example(name: &str) -> String {
    let path = format!("{}/../../examples/backends/mocker/deploy/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("an example")
}

/// The graphs of a manifest, as they are written and with what the definitions set.
fn graphs(manifest: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifest).expect("YAML");
    let mut graphs: Vec<_> = documents.into_iter().filter(|object| object["kind"] == "DynamoGraphDeployment").collect();
    for graph in &mut graphs {
        for part in ["/spec/services/Worker", "/spec/components/0"] {
            if let Some(multinode) = graph.pointer_mut(part).and_then(|part| part.get_mut("multinode")) {
                assert_eq!(*multinode, json!({}));
                multinode["nodeCount"] = 2.into();
            }
        }
    }
    graphs
}

#[test]
fn every_shape_is_taken_and_comes_back_in_both_versions() {
    let Some(server) = server() else { return };
    server.namespace("accepted");
    let examples = ["agg.yaml", "disagg.yaml"].map(example);
    let mut count = 0;
    for manifest in SHAPES.iter().map(|(_, text)| *text).chain(examples.iter().map(String::as_str)) {
        server.create("accepted", manifest);
        for written in graphs(manifest) {
            let name = written["metadata"]["name"].as_str().expect("a name");
            let api_version = written["apiVersion"].as_str().expect("a version");
            for version in ["v1alpha1", "v1beta1"] {
                let found = server.get("accepted", &format!("dynamographdeployments.{version}.nvidia.com"), name);
                let asked = format!("nvidia.com/{version}");
                let expected = convert(written.clone(), &asked).expect("converted");
                assert_eq!(found, expected, "{name} in {asked}");
                assert_eq!(convert(found, api_version).expect("converted"), written, "{name} back");
                count += 1;
            }
        }
    }
    assert_eq!(count, 18);
}

#[test]
fn the_usual_manifests_need_no_annotation() {
    let Some(server) = server() else { return };
    server.namespace("plain");
    server.create("plain", SHAPES[0].1);
    let stored = server.get("plain", "dgd", "alpha-disagg");
    assert_eq!(stored["apiVersion"], "nvidia.com/v1beta1");
    assert_eq!(stored["metadata"], json!({"name": "alpha-disagg"}));
    server.create("plain", SHAPES[2].1);
    let annotation =
        server.get("plain", "dgd", "alpha-fields")["metadata"]["annotations"][LEFTOVERS_ANNOTATION].clone();
    let length = annotation.as_str().expect("leftovers").len();
    assert!(length < 5000, "{length} bytes");
}
