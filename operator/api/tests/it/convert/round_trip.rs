//! Nothing is lost on the way there and back, whatever an object holds.

use dynosim_api::{Component, Manifest};
use proptest::prelude::*;
use serde_json::Value;

use super::arbitrary::{alpha, beta, valid_alpha, wild};
use super::{ALPHA, BETA, to_alpha, to_beta};

fn components(object: &Value) -> Vec<Component> {
    let manifest = Manifest::read(&object.to_string()).expect("a manifest");
    let mut components = manifest.graphs[0].graph().components;
    for component in &mut components {
        component.path.clear();
        component.component_type = match component.component_type.name() {
            "default" => dynosim_api::ComponentType::Other(String::new()),
            _ => component.component_type.clone(),
        };
    }
    components
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn graphs_of_the_older_version_come_back_as_they_were(object in alpha()) {
        let there = to_beta(&object);
        prop_assert_eq!(&there["apiVersion"], BETA);
        prop_assert_eq!(to_alpha(&there), object);
    }

    #[test]
    fn graphs_of_the_newer_version_come_back_as_they_were(object in beta()) {
        let there = to_alpha(&object);
        prop_assert_eq!(&there["apiVersion"], ALPHA);
        prop_assert_eq!(to_beta(&there), object);
    }

    #[test]
    fn a_graph_that_went_back_and_forth_stays_the_same(object in alpha()) {
        let there = to_beta(&object);
        prop_assert_eq!(to_beta(&to_alpha(&there)), there);
    }

    #[test]
    fn objects_without_the_form_of_a_graph_come_back_as_they_were(spec in wild(), status in wild()) {
        for (version, there, back) in [(ALPHA, to_beta as fn(&Value) -> Value, to_alpha as fn(&Value) -> Value), (BETA, to_alpha, to_beta)] {
            let mut object = super::graph(version, &spec);
            object["status"] = status.clone();
            prop_assert_eq!(back(&there(&object)), object);
        }
    }

    #[test]
    fn scaling_adapters_come_back_as_they_were(spec in wild(), reference in wild()) {
        for (version, there, back) in [(ALPHA, to_beta as fn(&Value) -> Value, to_alpha as fn(&Value) -> Value), (BETA, to_alpha, to_beta)] {
            let mut object = super::graph(version, &spec);
            object["kind"] = "DynamoGraphDeploymentScalingAdapter".into();
            if let Value::Object(fields) = &mut object["spec"] {
                fields.insert("dgdRef".to_owned(), reference.clone());
            }
            prop_assert_eq!(back(&there(&object)), object);
        }
    }

    #[test]
    fn both_versions_run_the_same(object in valid_alpha()) {
        prop_assert_eq!(components(&object), components(&to_beta(&object)));
    }
}
