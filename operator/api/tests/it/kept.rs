//! Fields that are not known stay.

use dynosim_api::Manifest;
use dynosim_api::manifest::Resource;
use serde_json::{Value, json};

fn round_trip(object: &Value) -> Value {
    let manifest = Manifest::read(&object.to_string()).expect("a manifest");
    match &manifest.graphs[0] {
        Resource::V1Alpha1(resource) => serde_json::to_value(resource),
        Resource::V1Beta1(resource) => serde_json::to_value(resource),
    }
    .expect("JSON")
}

#[test]
fn unknown_fields_of_graphs_and_components_are_kept() {
    let beta = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": "g"},
        "spec": {
            "restart": {"id": "1", "strategy": {"type": "Parallel"}},
            "components": [{
                "name": "a", "type": "decode", "sharedMemorySize": "1Gi", "experimental": {"checkpoint": {"x": [1, 2]}},
                "podTemplate": {"spec": {"containers": [{"name": "main", "image": "i"}]}},
            }],
        },
    });
    assert_eq!(round_trip(&beta), beta);
    let alpha = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": {"name": "g"},
        "spec": {
            "pvcs": [{"name": "p"}],
            "services": {"a": {
                "dynamoNamespace": "old", "sharedMemory": {"size": "1Gi"},
                "extraPodSpec": {"mainContainer": {"image": "i", "workingDir": "/w"}, "nodeSelector": {"a": "b"}},
            }},
        },
    });
    assert_eq!(round_trip(&alpha), alpha);
}
