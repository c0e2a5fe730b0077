//! What makes a new generation of workers, and what does not.

use dynosim_operator::build::worker_hash;
use dynosim_operator::{Config, validate};

use crate::manifests::{config, graph, shape};

fn hash_with(yaml: &str, config: &Config) -> String {
    let valid = validate(&graph(yaml), config).unwrap_or_else(|invalid| panic!("{invalid}"));
    worker_hash(&valid.graph, config).expect("workers")
}

fn hash(yaml: &str) -> String {
    hash_with(yaml, &config())
}

/// The hash of [`shape`] `disagg.yaml`. It names running Deployments: if this changes, an update of the operator replaces every
/// worker of every graph.
const DISAGG: &str = "189d5efd";

#[test]
fn the_hash_stays_over_releases() {
    assert_eq!(hash(&shape("disagg.yaml")), DISAGG);
}

#[test]
fn scaling_and_what_is_beside_the_pods_makes_no_new_generation() {
    let yaml = shape("disagg.yaml");
    for (from, to) in [
        ("      replicas: 1", "      replicas: 7"),
        ("      type: decode", "      type: decode\n      scalingAdapter: {}"),
        ("      type: decode", "      type: decode\n      modelRef: {name: m}"),
        ("spec:\n  components", "spec:\n  restart: {id: again}\n  components"),
        ("{name: mocker-disagg}", "{name: mocker-disagg, annotations: {note: other}}"),
        ("type: frontend", "type: frontend\n      sharedMemorySize: 1Gi"),
    ] {
        let other = yaml.replace(from, to);
        assert_ne!(yaml, other, "{from}");
        assert_eq!(hash(&yaml), hash(&other), "{to}");
    }
    let surge = "annotations: {nvidia.com/deployment-rolling-update-max-surge: '3'}";
    let other = yaml.replace("{name: mocker-disagg}", &format!("{{name: mocker-disagg, {surge}}}"));
    assert_eq!(hash(&yaml), hash(&other));
}

#[test]
fn a_change_of_any_worker_makes_a_new_generation_of_all() {
    let yaml = shape("disagg.yaml");
    for (from, to) in [
        ("'1.0', --disaggregation-mode, prefill", "'2.0', --disaggregation-mode, prefill"),
        ("'1.0', --disaggregation-mode, decode", "'2.0', --disaggregation-mode, decode"),
        ("workingDir: /workspace", "workingDir: /elsewhere"),
        ("spec:\n  components", "spec:\n  env: [{name: A, value: b}]\n  components"),
        ("spec:\n  components", "spec:\n  labels: {a: b}\n  components"),
        ("type: prefill", "type: prefill\n      sharedMemorySize: 1Gi"),
        ("type: prefill", "type: prefill\n      globalDynamoNamespace: true"),
        ("type: prefill", "type: worker"),
    ] {
        let other = yaml.replace(from, to);
        assert_ne!(yaml, other, "{from}");
        assert_ne!(hash(&yaml), hash(&other), "{to}");
    }
    let config = Config { mocker_image: "other:1".to_owned(), ..config() };
    assert_ne!(hash(&yaml), hash_with(&yaml, &config), "another image of the operator's is another worker");
}

#[test]
fn the_order_of_variables_and_components_does_not_count() {
    let env = |text: &str| {
        shape("disagg.yaml").replace("spec:\n  components", &format!("spec:\n  env: [{text}]\n  components"))
    };
    let (a, b) = ("{name: A, value: one}", "{name: B, value: two}");
    assert_eq!(hash(&env(&format!("{a}, {b}"))), hash(&env(&format!("{b}, {a}"))));
}

#[test]
fn a_router_that_names_the_namespace_keeps_the_workers_in_it() {
    let config = config();
    for graph in crate::manifests::graphs(&shape("global-planner.yaml")) {
        let valid = validate(&graph, &config).expect("valid");
        let built = dynosim_operator::build(&valid.graph, &dynosim_operator::Observed::default(), &config);
        let text = serde_json::to_string(&crate::manifests::objects(&built.children)).expect("JSON");
        assert!(!text.contains("DYN_NAMESPACE_WORKER_SUFFIX"), "{}", valid.graph.name);
    }
    let text =
        serde_json::to_string(&crate::manifests::objects(&crate::manifests::children(&graph(&shape("agg.yaml")))))
            .expect("JSON");
    assert!(text.contains("DYN_NAMESPACE_WORKER_SUFFIX"));
}
