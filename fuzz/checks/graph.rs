//! Graphs never make the operator panic, are refused only with a reason, and become the same objects each time. True if
//! the manifest held a graph.

use dynosim_api::Manifest;
use dynosim_api::convert::convert;
use dynosim_api::manifest::Resource;
use dynosim_operator::{Config, Observed, build, validate};

pub(crate) fn check(data: &[u8]) -> bool {
    let Some(manifest) = std::str::from_utf8(data).ok().and_then(|text| Manifest::read(text).ok()) else {
        return false;
    };
    for resource in &manifest.graphs {
        let json = match resource {
            Resource::V1Alpha1(resource) => serde_json::to_value(resource),
            Resource::V1Beta1(resource) => serde_json::to_value(resource),
        };
        let beta = convert(json.expect("a graph is JSON"), "nvidia.com/v1beta1").expect("both versions are served");
        let Ok(graph) = serde_json::from_value(beta) else { continue };
        let config = Config::default();
        match validate(&graph, &config) {
            Err(invalid) => assert!(!invalid.0.errors.is_empty(), "refused without a reason"),
            Ok(valid) => {
                let once = build(&valid.graph, &Observed::default(), &config);
                assert_eq!(once, build(&valid.graph, &Observed::default(), &config));
            }
        }
    }
    !manifest.graphs.is_empty()
}
