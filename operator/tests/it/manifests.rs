//! Manifests for the tests.

use std::path::PathBuf;

use dynosim_api::convert::convert;
use dynosim_api::v1beta1::DynamoGraphDeployment;
use dynosim_operator::{Children, Config, Observed, Valid, validate};
use serde_json::{Value, json};

/// A folder beside the tests.
pub(crate) fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The graphs of a manifest in the stored version, as an API server would give them.
pub(crate) fn graphs(yaml: &str) -> Vec<DynamoGraphDeployment> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).expect("YAML");
    let graphs = documents.into_iter().filter(|document| document["kind"] == "DynamoGraphDeployment");
    graphs.map(stored).collect()
}

/// A graph of either version as it is stored.
pub(crate) fn stored(mut document: Value) -> DynamoGraphDeployment {
    let uid = format!("uid-of-{}", document["metadata"]["name"].as_str().unwrap_or_default());
    document["metadata"]["uid"] = uid.into();
    if document["metadata"]["namespace"].is_null() {
        document["metadata"]["namespace"] = "test".into();
    }
    let beta = convert(document, "nvidia.com/v1beta1").expect("converted");
    serde_json::from_value(beta).expect("a graph")
}

/// The only graph of a manifest.
pub(crate) fn graph(yaml: &str) -> DynamoGraphDeployment {
    let mut graphs = graphs(yaml);
    assert_eq!(graphs.len(), 1, "{yaml}");
    graphs.remove(0)
}

/// One of the shapes.
pub(crate) fn shape(name: &str) -> String {
    std::fs::read_to_string(folder("shapes").join(name)).expect("a shape")
}

/// Validated, or all errors in one text.
pub(crate) fn valid(graph: &DynamoGraphDeployment, config: &Config) -> Result<Valid, String> {
    validate(graph, config).map_err(|invalid| invalid.to_string())
}

/// Settings with an image that stays over releases.
pub(crate) fn config() -> Config {
    Config { mocker_image: "dynosim:test".to_owned(), ..Config::default() }
}

/// Built without anything that was there before.
pub(crate) fn children(graph: &DynamoGraphDeployment) -> Children {
    let config = config();
    let valid = valid(graph, &config).expect("valid");
    dynosim_operator::build(&valid.graph, &Observed::default(), &config).children
}

/// All objects in the order in which they are applied.
pub(crate) fn objects(children: &Children) -> Vec<Value> {
    // Without `..`, so that no kind is forgotten.
    let Children {
        accounts,
        roles,
        bindings,
        claims,
        adapters,
        services,
        deployments,
        retiring,
        ingresses,
        pod_monitors,
    } = children;
    let mut objects = Vec::new();
    add(&mut objects, accounts);
    add(&mut objects, roles);
    add(&mut objects, bindings);
    add(&mut objects, claims);
    add(&mut objects, adapters);
    add(&mut objects, services);
    add(&mut objects, deployments);
    objects.extend(
        retiring
            .iter()
            .map(|old| json!({"kind": "retiring", "metadata": {"name": old.name}, "replicas": old.replicas})),
    );
    add(&mut objects, ingresses);
    add(&mut objects, pod_monitors);
    objects
}

fn add<T: serde::Serialize>(objects: &mut Vec<Value>, list: &[T]) {
    objects.extend(list.iter().map(|object| serde_json::to_value(object).expect("JSON")));
}
