//! Manifests never panic, and their graphs keep the limits that a launcher relies on and read back from JSON. True if
//! the manifest was accepted.

use dynosim_api::manifest::Resource;
use dynosim_api::{MAX_COMPONENTS, Manifest};

pub(crate) fn check(data: &[u8]) -> bool {
    let Some(manifest) = std::str::from_utf8(data).ok().and_then(|text| Manifest::read(text).ok()) else {
        return false;
    };
    for resource in &manifest.graphs {
        let graph = resource.graph();
        assert!((1..=MAX_COMPONENTS).contains(&graph.components.len()));
        for component in &graph.components {
            assert!(
                (1..=63).contains(&component.name.len()) && component.replicas.is_none_or(|replicas| replicas >= 0)
            );
        }
        let json = match resource {
            Resource::V1Alpha1(resource) => serde_json::to_string(resource),
            Resource::V1Beta1(resource) => serde_json::to_string(resource),
        };
        let again = Manifest::read(&json.expect("a graph is JSON")).expect("a written graph is valid");
        assert_eq!(again.graphs.iter().map(Resource::graph).collect::<Vec<_>>(), [graph]);
    }
    true
}
