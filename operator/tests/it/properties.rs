//! Manifests changed at random: nothing panics, and what is let through becomes objects that fit together.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use dynosim_api::v1beta1::DynamoGraphDeployment;
use dynosim_operator::{Config, Observed, build, formats, validate};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::manifests::{folder, graphs, objects, shape};

/// All shapes as they are stored.
fn seeds() -> &'static [Value] {
    static SEEDS: OnceLock<Vec<Value>> = OnceLock::new();
    SEEDS.get_or_init(read_seeds)
}

fn read_seeds() -> Vec<Value> {
    let names = std::fs::read_dir(folder("shapes")).expect("shapes").map(|entry| entry.expect("a file").file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().expect("text")).collect();
    names.sort();
    let all = names.iter().flat_map(|name| graphs(&shape(name)));
    all.map(|graph| serde_json::to_value(graph).expect("JSON")).collect()
}

/// Values that are put anywhere.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
        Just(json!(true)),
        any::<i32>().prop_map(Value::from),
        (0..70_000i32).prop_map(Value::from),
        prop_oneof![
            Just(""),
            Just("-"),
            Just("A_b"),
            Just("a.b"),
            Just("main"),
            Just("0"),
            Just("-1"),
            Just("8Gi"),
            Just("%"),
            Just("$(A)"),
            Just("$$(A)"),
            Just("$("),
            Just("frontend"),
            Just("worker"),
            Just("prefill"),
            Just("--num-workers"),
            Just("--bootstrap-ports"),
            Just("--data-parallel-size"),
            Just("--is-prefill-worker"),
            Just("1024"),
            Just("65535"),
            Just("{\"dp_size\":99999}"),
            Just("python3"),
            Just("sh"),
            Just("-c"),
            Just("9090"),
            Just("18446744073709551616"),
        ]
        .prop_map(Value::from),
        "[a-z0-9-]{0,70}".prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ]
}

/// A change of one place of a manifest.
#[derive(Clone, Debug)]
enum Change {
    Replace(Value),
    Remove,
    Twice,
}

fn change() -> impl Strategy<Value = (prop::sample::Index, Change)> {
    let kind = prop_oneof![odd().prop_map(Change::Replace), Just(Change::Remove), Just(Change::Twice)];
    (any::<prop::sample::Index>(), kind)
}

/// Paths to all places below `at`.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                let path = format!("{at}/{}", escape(key));
                places(inner, &path, found);
                found.push(path);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                let path = format!("{at}/{index}");
                places(inner, &path, found);
                found.push(path);
            }
        }
        _ => {}
    }
}

fn apply(manifest: &mut Value, index: prop::sample::Index, change: &Change) {
    let mut all = Vec::new();
    places(&manifest["spec"], "/spec", &mut all);
    if all.is_empty() {
        return;
    }
    let path = index.get(&all);
    let (parent, key) = path.rsplit_once('/').expect("below the root");
    let key = key.replace("~1", "/").replace("~0", "~");
    match (manifest.pointer_mut(parent), change) {
        (Some(Value::Object(fields)), Change::Remove) => drop(fields.remove(&key)),
        (Some(Value::Object(fields)), Change::Replace(value)) => drop(fields.insert(key, value.clone())),
        (Some(Value::Array(items)), change) => {
            let index: usize = key.parse().expect("a number");
            match change {
                Change::Remove => drop(items.remove(index)),
                Change::Replace(value) => items[index] = value.clone(),
                Change::Twice => items.insert(index, items[index].clone()),
            }
        }
        _ => {}
    }
}

/// What an API server and the operator itself rely on, of every object.
fn check_objects(graph: &DynamoGraphDeployment, config: &Config) -> Result<(), TestCaseError> {
    let valid = match validate(graph, config) {
        Ok(valid) => valid,
        Err(invalid) => {
            prop_assert!(!invalid.0.errors.is_empty(), "refused without a reason");
            return Ok(());
        }
    };
    let observed = Observed { has_pod_monitors: true, ..Observed::default() };
    let built = build(&valid.graph, &observed, config);
    let all = objects(&built.children);
    let bytes = |all: &[Value]| serde_json::to_vec(all).expect("JSON");
    let again = build(&validate(graph, config).expect("valid twice").graph, &observed, config);
    prop_assert_eq!(bytes(&all), bytes(&objects(&again.children)));
    let mut seen = BTreeSet::new();
    for object in &all {
        let kind = object["kind"].as_str().expect("a kind");
        let name = object["metadata"]["name"].as_str().expect("a name");
        prop_assert!(seen.insert((kind, name)), "{} {} twice", kind, name);
        let form = match kind {
            "Service" => formats::service_name(name),
            "PersistentVolumeClaim" | "ServiceAccount" | "Role" | "RoleBinding" => formats::subdomain(name),
            _ => formats::dns_label(name),
        };
        prop_assert!(form.is_ok(), "{} {}", kind, name);
        for (key, text) in object["metadata"]["labels"].as_object().into_iter().flatten() {
            prop_assert!(
                formats::label_value(text.as_str().unwrap_or_default()).is_ok(),
                "{} {} {}: {}",
                kind,
                name,
                key,
                text
            );
        }
    }
    for deployment in &built.children.deployments {
        check_pod(&serde_json::to_value(deployment).expect("JSON"))?;
    }
    Ok(())
}

fn check_pod(deployment: &Value) -> Result<(), TestCaseError> {
    let template = &deployment["spec"]["template"];
    for (key, text) in deployment["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten() {
        prop_assert_eq!(&template["metadata"]["labels"][key], text);
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let names = |value: &Value| list(value).iter().map(|one| one["name"].to_string()).collect::<Vec<_>>();
    let unique = |names: &[String]| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let volumes = names(&template["spec"]["volumes"]);
    prop_assert!(unique(&volumes), "{:?}", volumes);
    for container in list(&template["spec"]["containers"]) {
        prop_assert!(container["image"].as_str().is_some_and(|image| !image.is_empty()), "{}", container);
        let env = names(&container["env"]);
        prop_assert!(unique(&env) || !is_merged(&container), "{:?}", env);
        let ports: Vec<_> = list(&container["ports"])
            .iter()
            .map(|port| format!("{} {}", port["containerPort"], port["protocol"]))
            .collect();
        prop_assert!(unique(&ports), "{:?}", ports);
        let port_names: Vec<_> = names(&container["ports"]).into_iter().filter(|name| name != "null").collect();
        prop_assert!(unique(&port_names), "{:?}", port_names);
        for mount in names(&container["volumeMounts"]) {
            prop_assert!(volumes.contains(&mount), "{} of {:?}", mount, volumes);
        }
        let paths: Vec<_> =
            list(&container["volumeMounts"]).iter().map(|mount| mount["mountPath"].to_string()).collect();
        prop_assert!(unique(&paths), "{:?}", paths);
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            if let Some(port) = container[probe]["httpGet"]["port"].as_str().filter(|_| is_merged(&container)) {
                prop_assert!(port_names.contains(&format!("\"{port}\"")), "{} of {:?}", port, port_names);
            }
        }
    }
    Ok(())
}

/// Whether the operator has put the container's environment together.
fn is_merged(container: &Value) -> bool {
    container["env"].as_array().is_some_and(|env| env.iter().any(|one| one["name"] == "DYN_PARENT_DGD_K8S_NAME"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn manifests_changed_at_random_never_panic_and_build_if_they_are_valid(
        seed in any::<prop::sample::Index>(),
        changes in prop::collection::vec(change(), 1..4),
        manifest_images in any::<bool>(),
    ) {
        let mut manifest = seed.get(seeds()).clone();
        for (index, change) in &changes {
            apply(&mut manifest, *index, change);
        }
        let Ok(graph) = serde_json::from_value::<DynamoGraphDeployment>(manifest) else { return Ok(()) };
        let policy = if manifest_images { "Manifest" } else { "Mocker" };
        let config = Config {
            image_policy: dynosim_operator::config::ImagePolicy::read(policy).expect("a policy"),
            pod_monitors: true,
            ..Config::default()
        };
        check_objects(&graph, &config)?;
    }
}

/// Manifests changed at random that are let through, always the same ones.
pub(crate) fn valid_manifests(tries: usize) -> Vec<DynamoGraphDeployment> {
    let mut runner = TestRunner::deterministic();
    let one = (any::<prop::sample::Index>(), prop::collection::vec(change(), 1..4));
    let mut found = Vec::new();
    while found.len() < tries {
        let (seed, changes) = one.new_tree(&mut runner).expect("a manifest").current();
        let mut manifest = seed.get(seeds()).clone();
        for (index, change) in &changes {
            apply(&mut manifest, *index, change);
        }
        let graph = serde_json::from_value::<DynamoGraphDeployment>(manifest).ok();
        found.extend(graph.filter(|graph| validate(graph, &Config::default()).is_ok()));
    }
    found
}

#[path = "../../../fuzz/checks/admission.rs"]
mod admission;
#[path = "../../../fuzz/checks/conversion.rs"]
mod conversion;
#[path = "../../../fuzz/checks/graph.rs"]
mod fuzzed;

type Check = fn(&[u8]) -> bool;

/// Fuzz targets of this crate, by the folder of their seeds. Each says whether it understood what it was given.
const TARGETS: [(&str, Check); 3] =
    [("admission", admission::check), ("conversion", conversion::check), ("graph", fuzzed::check)];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(900))]

    #[test]
    fn bytes_changed_at_random_never_panic(
        target in 0..TARGETS.len(),
        seed in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let (name, check) = TARGETS[target];
        let folder = folder("../../fuzz/seeds").join(name);
        let mut names: Vec<_> = std::fs::read_dir(&folder).expect("seeds").map(|entry| entry.expect("a file").path()).collect();
        names.sort();
        let mut bytes = std::fs::read(seed.get(&names)).expect("a seed");
        for (index, byte) in &changes {
            *index.get_mut(&mut bytes) = *byte;
        }
        let understood = check(&bytes);
        prop_assert!(understood || !changes.is_empty(), "a seed of {name} is understood");
    }
}

#[test]
fn all_shapes_pass_the_checks_of_the_property() {
    for seed in seeds() {
        let graph = serde_json::from_value(seed.clone()).expect("a graph");
        assert!(validate(&graph, &Config::default()).is_ok());
        check_objects(&graph, &Config::default()).expect("fits");
    }
}
