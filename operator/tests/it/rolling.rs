//! Graphs built again and again over what came of the last time, as a controller would.

use std::collections::BTreeMap;

use dynosim_operator::dereference::SeenDeployment;
use dynosim_operator::restart::Phase;
use dynosim_operator::{Built, Config, Observed, build, validate};

use crate::manifests::{graph, shape};

/// A namespace in which what is built comes true.
#[derive(Debug, Default)]
struct Cluster {
    deployments: BTreeMap<String, SeenDeployment>,
    adapters: BTreeMap<String, u32>,
    seconds: i64,
}

impl Cluster {
    fn observed(&self) -> Observed {
        Observed {
            now: jiff::Timestamp::from_second(self.seconds).expect("a time"),
            adapters: self.adapters.clone(),
            deployments: self.deployments.values().cloned().collect(),
            ..Observed::default()
        }
    }

    /// Builds and applies; pods are ready by the next time.
    fn step(&mut self, yaml: &str) -> Built {
        let config = Config::default();
        let valid = validate(&graph(yaml), &config).unwrap_or_else(|invalid| panic!("{invalid}"));
        for seen in self.deployments.values_mut() {
            seen.available = seen.replicas;
            seen.settled = true;
        }
        let built = build(&valid.graph, &self.observed(), &config);
        self.apply(&built);
        built
    }

    fn apply(&mut self, built: &Built) {
        for deployment in &built.children.deployments {
            let name = deployment.metadata.name.clone().expect("a name");
            let label = |key: &str| deployment.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
            let spec = deployment.spec.as_ref().expect("a spec");
            let annotation = |key: &str| {
                let pods = spec.template.metadata.as_ref().and_then(|pods| pods.annotations.as_ref());
                pods.and_then(|annotations| annotations.get(key)).cloned()
            };
            let next = deployment.metadata.annotations.as_ref().and_then(|all| all.get("dynosim/next-start"));
            let seen = self.deployments.entry(name.clone()).or_default();
            let restart = annotation("nvidia.com/restartAt");
            let restarted = seen.restart != restart;
            *seen = SeenDeployment {
                name,
                component: label("nvidia.com/dynamo-component").expect("a component").to_lowercase(),
                hash: label("nvidia.com/dynamo-worker-hash"),
                replicas: spec.replicas.expect("replicas").cast_unsigned(),
                available: if restarted { 0 } else { seen.available },
                settled: false,
                restart,
                next_start: next.map(|text| text.parse().expect("a time")),
                ..SeenDeployment::default()
            };
        }
        for old in &built.children.retiring {
            if old.is_drained {
                self.deployments.remove(&old.name);
            } else if let Some(seen) = self.deployments.get_mut(&old.name) {
                seen.replicas = old.replicas;
                seen.available = seen.available.min(old.replicas);
            }
        }
    }

    fn settle(&mut self, yaml: &str) -> Built {
        let mut last = self.step(yaml);
        for _ in 0..100 {
            self.seconds += 10;
            let next = self.step(yaml);
            if next == last {
                return next;
            }
            last = next;
        }
        panic!("does not settle: {self:?}");
    }

    fn replicas(&self) -> Vec<(String, u32)> {
        let short = |name: &str| name.strip_prefix("mocker-disagg-").unwrap_or(name).to_owned();
        self.deployments.values().map(|seen| (short(&seen.name), seen.replicas)).collect()
    }
}

#[test]
fn a_graph_that_is_steady_is_built_the_same() {
    let mut cluster = Cluster::default();
    let yaml = shape("everything.yaml");
    let built = cluster.settle(&yaml);
    assert_eq!((built.wait, built.rolling.as_ref()), (None, None));
    assert_eq!(built.restart.phase, Some(Phase::Completed));
    assert_eq!(cluster.step(&yaml), built);
}

#[test]
fn a_change_of_workers_rolls_and_one_of_the_frontend_does_not() {
    let mut cluster = Cluster::default();
    let yaml = shape("disagg.yaml");
    let first = cluster.settle(&yaml).hash.expect("workers");
    let expected =
        |hash: &str| vec![(format!("decode-{hash}"), 1), ("frontend".to_owned(), 1), (format!("prefill-{hash}"), 1)];
    assert_eq!(cluster.replicas(), expected(&first));

    let changed = yaml.replace("'1.0', --disaggregation-mode, decode", "'9.0', --disaggregation-mode, decode");
    let built = cluster.step(&changed);
    let second = built.hash.clone().expect("workers");
    assert_ne!(first, second);
    assert_eq!(built.rolling.expect("a roll").from, std::slice::from_ref(&first));
    assert_eq!(cluster.replicas().len(), 5, "old and new stand side by side");
    assert!(cluster.deployments.values().all(|seen| seen.replicas == 1));
    let built = cluster.settle(&changed);
    assert_eq!(built.rolling, None);
    assert_eq!(cluster.replicas(), expected(&second));

    let frontend = changed.replace("type: frontend", "type: frontend\n      sharedMemorySize: 1Gi");
    assert_eq!(cluster.settle(&frontend).hash, Some(second));
}

#[test]
fn scaling_while_a_roll_goes_on_ends_at_the_wanted_number() {
    let mut cluster = Cluster::default();
    let yaml = shape("disagg.yaml").replace(
        "      type: decode\n      replicas: 1",
        "      type: decode\n      replicas: 4\n      scalingAdapter: {}",
    );
    cluster.settle(&yaml);
    let changed = yaml.replace("'1.0'", "'9.0'");
    cluster.step(&changed);
    cluster.adapters.insert("decode".to_owned(), 2);
    cluster.step(&changed);
    cluster.adapters.insert("decode".to_owned(), 6);
    let built = cluster.settle(&changed);
    let hash = built.hash.expect("workers");
    assert!(cluster.replicas().contains(&(format!("decode-{hash}"), 6)), "{:?}", cluster.replicas());
    assert_eq!(cluster.deployments.len(), 3);
}

#[test]
fn many_workers_start_in_steps_also_when_they_are_scaled_up() {
    let mut cluster = Cluster::default();
    let with = |replicas: u32| {
        shape("agg.yaml").replace(
            "      type: decode\n      replicas: 1",
            &format!("      type: decode\n      replicas: {replicas}"),
        )
    };
    let worker = |cluster: &Cluster| {
        cluster.deployments.values().find(|seen| seen.component == "decode").expect("a worker").replicas
    };
    let built = cluster.step(&with(40));
    assert_eq!(worker(&cluster), 10);
    assert_eq!(built.wait, Some(std::time::Duration::from_secs(1)));
    cluster.settle(&with(40));
    assert_eq!(worker(&cluster), 40);
    cluster.step(&with(100));
    assert!(worker(&cluster) < 64, "{}", worker(&cluster));
    cluster.settle(&with(100));
    assert_eq!(worker(&cluster), 100);
    cluster.step(&with(2));
    assert_eq!(worker(&cluster), 2);
}

#[test]
fn a_restart_goes_through_the_components_one_after_the_other() {
    let mut cluster = Cluster::default();
    let yaml = shape("disagg.yaml");
    cluster.settle(&yaml);
    let again = yaml.replace("spec:\n  components", "spec:\n  restart: {id: again}\n  components");
    let mut order = Vec::new();
    loop {
        let built = cluster.step(&again);
        if built.restart.phase == Some(Phase::Completed) {
            break;
        }
        assert_eq!(built.restart.phase, Some(Phase::Restarting));
        order.extend(
            built.restart.in_progress.iter().filter(|name| order.last() != Some(*name)).cloned().collect::<Vec<_>>(),
        );
        assert!(order.len() <= 3, "{order:?}");
    }
    assert_eq!(order, ["decode", "frontend", "prefill"]);
    assert!(cluster.deployments.values().all(|seen| seen.restart.as_deref() == Some("again")));
    let without = cluster.settle(&yaml);
    assert_eq!(without.restart.phase, None);
    assert!(
        cluster.deployments.values().all(|seen| seen.restart.as_deref() == Some("again")),
        "nothing restarts once more"
    );
}

#[test]
fn a_second_change_overtakes_the_first() {
    let mut cluster = Cluster::default();
    let yaml = shape("disagg.yaml");
    cluster.settle(&yaml);
    cluster.step(&yaml.replace("'1.0'", "'2.0'"));
    let last = yaml.replace("'1.0'", "'3.0'");
    let built = cluster.step(&last);
    assert_eq!(built.rolling.expect("a roll").from.len(), 2);
    let hash = cluster.settle(&last).hash.expect("workers");
    assert_eq!(cluster.deployments.len(), 3);
    let all_new = cluster.deployments.values().filter_map(|seen| seen.hash.as_ref()).all(|other| *other == hash);
    assert!(all_new, "{:?}", cluster.replicas());
}
