//! Pod monitors: what Prometheus scrapes, with the Dynamo namespace as the label that planners ask for.

use dynosim_api::ComponentType;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use super::meta::{Texts, component_labels, metadata, over, selector, texts};
use crate::config::Config;
use crate::defaults::{HTTP, METRICS, SYSTEM, SYSTEM_PORT};
use crate::dereference::Observed;
use crate::keys::label;
use crate::names;
use crate::validated::{ValidatedComponent, ValidatedGraph};

/// How often.
const INTERVAL: &str = "5s";

/// One for each component with metrics, where settings and cluster have them.
pub(super) fn all(graph: &ValidatedGraph, observed: &Observed, config: &Config) -> Vec<DynamicObject> {
    if !config.pod_monitors || !observed.has_pod_monitors {
        return Vec::new();
    }
    graph.components.iter().filter(|component| component.has_metrics).map(|component| build(graph, component)).collect()
}

fn build(graph: &ValidatedGraph, component: &ValidatedComponent) -> DynamicObject {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("monitoring.coreos.com", "v1", "PodMonitor"));
    let name = names::child(&graph.name, &component.lower);
    let mut object = DynamicObject::new(&name, &resource);
    object.metadata = metadata(graph, name, component_labels(graph, component), Texts::new());
    let seen = over(selector(graph, component), texts([(label::METRICS, "true")]));
    object.data = json!({"spec": {
        "selector": {"matchLabels": seen},
        "podMetricsEndpoints": [endpoint(&component.component_type)],
    }});
    object
}

fn endpoint(kind: &ComponentType) -> Value {
    let namespace = json!({
        "sourceLabels": ["__meta_kubernetes_pod_label_nvidia_com_dynamo_namespace"],
        "targetLabel": "dynamo_namespace",
    });
    let port = match kind {
        ComponentType::Frontend => HTTP,
        ComponentType::Planner => METRICS,
        kind if kind.is_worker() => SYSTEM,
        // Their containers declare no port.
        _ => {
            let address = json!({
                "sourceLabels": ["__meta_kubernetes_pod_ip"],
                "targetLabel": "__address__",
                "replacement": format!("$1:{SYSTEM_PORT}"),
            });
            return json!({"path": "/metrics", "interval": INTERVAL, "relabelings": [address, namespace]});
        }
    };
    json!({"port": port, "path": "/metrics", "interval": INTERVAL, "relabelings": [namespace]})
}
