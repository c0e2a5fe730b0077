//! All objects of manifests of every published shape.

use std::fmt::Write;

use dynosim_operator::config::IngressDefaults;
use dynosim_operator::dereference::PullSecret;
use dynosim_operator::{Config, Observed, build};
use dynosim_peers::assert_golden;

use crate::manifests::{config, folder, graphs, objects, shape, valid};

fn rendered(name: &str, config: &Config, observed: &Observed) -> String {
    let mut text = String::new();
    for graph in graphs(&shape(name)) {
        let valid = valid(&graph, config).unwrap_or_else(|errors| panic!("{name}: {errors}"));
        writeln!(text, "# graph {}", valid.graph.name).expect("written");
        for warning in &valid.warnings {
            writeln!(text, "# warning: {warning}").expect("written");
        }
        for note in &valid.graph.notes {
            writeln!(text, "# note: {note}").expect("written");
        }
        let built = build(&valid.graph, observed, config);
        assert_eq!(built, build(&valid.graph, observed, config), "{name}: equal input, equal output");
        for object in objects(&built.children) {
            text.push_str("---\n");
            text.push_str(&serde_saphyr::to_string(&object).expect("YAML"));
        }
        text.push('\n');
    }
    text
}

#[test]
fn every_published_shape_becomes_these_objects() {
    let mut names: Vec<_> = std::fs::read_dir(folder("shapes"))
        .expect("shapes")
        .map(|entry| entry.expect("a file").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    assert!(names.len() >= 12, "{names:?}");
    for name in names {
        assert_golden(&folder("golden").join(&name), &rendered(&name, &config(), &Observed::default()));
    }
}

#[test]
fn settings_of_the_operator_reach_the_objects() {
    let config = Config {
        mocker_image: "registry.example/dynosim:9".to_owned(),
        image_pull_secrets: vec!["ours".to_owned()],
        nats_addr: Some("nats://nats:4222".to_owned()),
        etcd_addr: Some("http://etcd:2379".to_owned()),
        prometheus_endpoint: Some("http://prometheus".to_owned()),
        model_express_url: Some("http://express".to_owned()),
        pod_monitors: true,
        ingress: IngressDefaults { enabled: true, class_name: Some("nginx".to_owned()), ..IngressDefaults::default() },
        ..Config::default()
    };
    let secret = |name: &str, host: &str| PullSecret { name: name.to_owned(), registries: vec![host.to_owned()] };
    let observed = Observed {
        has_pod_monitors: true,
        pull_secrets: vec![secret("fits", "registry.example"), secret("other", "nvcr.io")],
        ..Observed::default()
    };
    let found = rendered("global-planner.yaml", &config, &observed);
    assert_golden(&folder("golden").join("settings.yaml"), &found);
}
