//! The example manifests, in both versions.

use dynosim_api::manifest::Resource;
use dynosim_api::{ComponentType, Graph, Manifest};

fn graph(name: &str) -> Graph {
    let path = format!("{}/../../examples/backends/mocker/deploy/{name}", env!("CARGO_MANIFEST_DIR"));
    let manifest = Manifest::read(&std::fs::read_to_string(path).expect("an example")).expect("a manifest");
    let [resource] = &manifest.graphs[..] else { panic!("one graph") };
    resource.graph()
}

#[test]
fn both_versions_of_an_example_mean_the_same_components() {
    for name in ["agg.yaml", "disagg.yaml"] {
        let (beta, alpha) = (graph(name), graph(&format!("v1alpha1/{name}")));
        assert_eq!(beta.name, alpha.name);
        let types = |graph: &Graph| -> Vec<(String, ComponentType)> {
            graph.components.iter().map(|c| (c.name.clone(), c.component_type.clone())).collect()
        };
        assert_eq!(types(&beta), types(&alpha));
        assert!(beta.components.iter().skip(1).all(|c| c.command == ["python3", "-m", "dynamo.mocker"]));
        assert!(beta.components.iter().skip(1).all(|c| c.component_type.is_worker()));
    }
}

#[test]
fn several_documents_and_lists_are_read_and_other_objects_named() {
    let text = "
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
# nothing here
---
apiVersion: v1
kind: List
items:
  - {apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {name: a}, spec: {components: [{name: x}]}}
  - {apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeployment, metadata: {name: b}, spec: {services: {y: {}}}}
";
    let manifest = Manifest::read(text).expect("a manifest");
    assert_eq!(manifest.others, ["ConfigMap/settings"]);
    let names: Vec<_> = manifest.graphs.iter().map(|resource| resource.graph().name).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(matches!(manifest.graphs[1], Resource::V1Alpha1(_)));
}
