//! What is counted, with the published names.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dynosim_api::GRAPH_KIND;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

use crate::cluster::kept::Key;

/// Seconds.
const BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
const STATUSES: [&str; 2] = ["ready", "not_ready"];

/// What is counted of reconciliations.
#[derive(Debug)]
pub struct Metrics {
    durations: HistogramVec,
    reconciliations: IntCounterVec,
    errors: IntCounterVec,
    resources: IntGaugeVec,
    /// Graphs and whether they are ready.
    graphs: Mutex<HashMap<Key, bool>>,
}

impl Metrics {
    /// Registers all.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let name = |name: &str| format!("dynamo_operator_{name}");
        let by = ["resource_type", "namespace"];
        let durations = HistogramVec::new(
            HistogramOpts::new(name("reconcile_duration_seconds"), "Time that a reconciliation took")
                .buckets(BUCKETS.to_vec()),
            &by,
        )?;
        let reconciliations = IntCounterVec::new(
            Opts::new(name("reconcile_total"), "Reconciliations by what came of them"),
            &[by[0], by[1], "result"],
        )?;
        let errors = IntCounterVec::new(
            Opts::new(name("reconcile_errors_total"), "Reconciliations that failed, by the kind of failure"),
            &[by[0], by[1], "error_type"],
        )?;
        let resources = IntGaugeVec::new(
            Opts::new(name("resources_total"), "Resources that are looked after"),
            &[by[0], by[1], "status"],
        )?;
        registry.register(Box::new(durations.clone()))?;
        registry.register(Box::new(reconciliations.clone()))?;
        registry.register(Box::new(errors.clone()))?;
        registry.register(Box::new(resources.clone()))?;
        Ok(Self { durations, reconciliations, errors, resources, graphs: Mutex::default() })
    }

    pub(crate) fn reconciled(&self, graph: &Key, result: &str, took: Duration) {
        let by = [GRAPH_KIND, graph.namespace.as_str()];
        self.durations.with_label_values(&by).observe(took.as_secs_f64());
        self.reconciliations.with_label_values(&[by[0], by[1], result]).inc();
    }

    pub(crate) fn failed(&self, namespace: &str, category: &str) {
        self.errors.with_label_values(&[GRAPH_KIND, namespace, category]).inc();
    }

    pub(crate) fn is_ready(&self, graph: &Key, is_ready: bool) {
        let mut graphs = self.graphs.lock().unwrap_or_else(PoisonError::into_inner);
        if graphs.get(graph) == Some(&is_ready) {
            return;
        }
        graphs.insert(graph.clone(), is_ready);
        self.count(&graphs, &graph.namespace);
    }

    pub(crate) fn forget(&self, graph: &Key) {
        let mut graphs = self.graphs.lock().unwrap_or_else(PoisonError::into_inner);
        if graphs.remove(graph).is_some() {
            self.count(&graphs, &graph.namespace);
        }
    }

    fn count(&self, graphs: &HashMap<Key, bool>, namespace: &str) {
        for status in STATUSES {
            let of = graphs.iter().filter(|(key, ready)| key.namespace == namespace && **ready == (status == "ready"));
            let labels = [GRAPH_KIND, namespace, status];
            match of.count() {
                // A namespace without graphs is none to tell of.
                0 => drop(self.resources.remove_label_values(&labels)),
                count => self.resources.with_label_values(&labels).set(count as i64),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{Encoder as _, TextEncoder};

    use super::*;

    #[test]
    fn graphs_are_counted_by_namespace_and_state_and_forgotten() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).expect("registered");
        let text = || {
            let mut text = Vec::new();
            TextEncoder::new().encode(&registry.gather(), &mut text).expect("written");
            String::from_utf8(text).expect("text")
        };
        metrics.is_ready(&Key::new("n", "a"), false);
        metrics.is_ready(&Key::new("n", "b"), true);
        metrics.is_ready(&Key::new("n", "a"), true);
        metrics.reconciled(&Key::new("n", "a"), "success", Duration::from_millis(3));
        let ready =
            r#"dynamo_operator_resources_total{namespace="n",resource_type="DynamoGraphDeployment",status="ready"} 2"#;
        assert!(text().contains(ready), "{}", text());
        assert!(!text().contains("not_ready"), "{}", text());
        assert!(text().contains(
            r#"dynamo_operator_reconcile_total{namespace="n",resource_type="DynamoGraphDeployment",result="success"} 1"#
        ));
        metrics.forget(&Key::new("n", "a"));
        metrics.forget(&Key::new("n", "b"));
        assert!(!text().contains("resources_total{"), "{}", text());
    }
}
