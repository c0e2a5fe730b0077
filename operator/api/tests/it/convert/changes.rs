//! Who changes a field through the other version has the last word on it, and touches nothing else.

use dynosim_api::convert::older_form;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::arbitrary::{alpha, valid_alpha};
use super::{ALPHA, BETA, graph, leftovers, to_alpha, to_beta};

fn without_leftovers(mut object: Value) -> Value {
    object["metadata"] = Value::Null;
    object
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scaling_through_the_newer_version_changes_nothing_else_in_the_older(object in valid_alpha()) {
        let mut there = to_beta(&object);
        let mut expected = object.clone();
        for component in there["spec"]["components"].as_array_mut().expect("a list") {
            component["replicas"] = 7.into();
            let name = component["name"].as_str().expect("a name");
            expected["spec"]["services"][name]["replicas"] = 7.into();
        }
        prop_assert_eq!(to_alpha(&there), expected);
    }

    #[test]
    fn any_change_through_the_newer_version_is_stored_as_it_was_made(object in alpha(), other in alpha()) {
        let mut changed = to_beta(&object);
        changed["spec"] = to_beta(&other)["spec"].clone();
        let back = to_beta(&to_alpha(&changed));
        prop_assert_eq!(without_leftovers(back), without_leftovers(changed));
    }
}

#[test]
fn what_only_the_older_version_has_outlives_a_change_of_the_pod() {
    let alpha = graph(
        ALPHA,
        &json!({
            "pvcs": [{"name": "models"}],
            "services": {"Frontend": {
                "componentType": "frontend",
                "ingress": {"enabled": true, "host": "h"},
                "envs": [{"name": "A", "value": "strong"}],
                "extraPodSpec": {"mainContainer": {"image": "i", "env": [{"name": "A", "value": "weak"}]}},
            }},
        }),
    );
    let mut beta = to_beta(&alpha);
    assert_eq!(
        beta["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0],
        json!({"name": "main", "image": "i", "env": [{"name": "A", "value": "strong"}]})
    );
    beta["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]["env"][0]["value"] = "new".into();
    let changed = to_alpha(&beta);
    assert_eq!(
        changed["spec"],
        json!({
            "pvcs": [{"name": "models"}],
            "services": {"Frontend": {
                "componentType": "frontend",
                "ingress": {"enabled": true, "host": "h"},
                "envs": [{"name": "A", "value": "new"}],
                "extraPodSpec": {"mainContainer": {"image": "i", "env": [{"name": "A", "value": "weak"}]}},
            }},
        })
    );
    assert_eq!(to_beta(&changed)["spec"], beta["spec"]);
    // An entry that is taken away does not come back as the weaker one, which would count now.
    beta["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]["env"] = json!([]);
    let frontend = &to_alpha(&beta)["spec"]["services"]["Frontend"];
    assert_eq!(frontend["extraPodSpec"], json!({"mainContainer": {"image": "i"}}));
    assert_eq!(frontend["ingress"]["host"], "h");
}

#[test]
fn a_component_that_is_gone_takes_its_leftovers_along() {
    let alpha = graph(ALPHA, &json!({"services": {"a": {"ingress": {"host": "h"}}, "b": {"dynamoNamespace": "n"}}}));
    let mut beta = to_beta(&alpha);
    beta["spec"]["components"].as_array_mut().expect("a list").remove(0);
    assert_eq!(to_alpha(&beta), graph(ALPHA, &json!({"services": {"b": {"dynamoNamespace": "n"}}})));
}

#[test]
fn the_type_of_the_older_version_comes_back_whole_or_not_at_all() {
    let alpha = graph(ALPHA, &json!({"services": {"a": {"componentType": "prefill"}}}));
    let mut beta = to_beta(&alpha);
    assert_eq!(beta["spec"], json!({"components": [{"name": "a", "type": "prefill"}]}));
    assert_eq!(to_alpha(&beta), alpha);
    beta["spec"]["components"][0]["type"] = "decode".into();
    let service = json!({"componentType": "worker", "subComponentType": "decode"});
    assert_eq!(to_alpha(&beta)["spec"]["services"]["a"], service);
}

#[test]
fn the_order_of_components_outlives_a_change_through_the_older_version() {
    let beta = graph(BETA, &json!({"components": [{"name": "z"}, {"name": "M"}, {"name": "a"}]}));
    let mut alpha = to_alpha(&beta);
    assert!(leftovers(&alpha).is_some_and(|text| text.len() < 120), "{alpha}");
    alpha["spec"]["services"]["M"]["replicas"] = 2.into();
    let expected = json!({"components": [{"name": "z"}, {"name": "M", "replicas": 2}, {"name": "a"}]});
    assert_eq!(to_beta(&alpha)["spec"], expected);
    alpha["spec"]["services"]["new"] = json!({});
    let names = to_beta(&alpha)["spec"]["components"].as_array().expect("a list").clone();
    assert_eq!(names.iter().map(|c| c["name"].clone()).collect::<Vec<_>>(), ["z", "M", "a", "new"]);
}

#[test]
fn leftovers_that_cannot_be_read_are_dropped() {
    let mut beta = graph(BETA, &json!({"components": [{"name": "a"}]}));
    for text in ["", "{}", "[]", r#"{"version":"v1alpha1","cells":3}"#, r#"{"version":"v1beta1"}"#] {
        beta["metadata"]["annotations"] = json!({dynosim_api::convert::LEFTOVERS_ANNOTATION: text});
        assert_eq!(to_alpha(&beta), graph(ALPHA, &json!({"services": {"a": {}}})), "{text}");
    }
}

#[test]
fn a_stored_graph_tells_what_only_the_older_version_can_say() {
    let claim =
        json!({"name": "m", "create": true, "size": "1Gi", "storageClass": "s", "volumeAccessMode": "ReadWriteOnce"});
    let alpha = graph(
        ALPHA,
        &json!({
            "pvcs": [claim],
            "services": {"Frontend": {"ingress": {"enabled": true, "host": "h"}}},
        }),
    );
    let stored = serde_json::from_value(to_beta(&alpha)).expect("a graph");
    let older = older_form(&stored).expect("written in the older version");
    assert_eq!(older.spec.pvcs[0].storage_class.as_deref(), Some("s"));
    let ingress = older.spec.services["Frontend"].ingress.as_ref().expect("an ingress");
    assert_eq!((ingress.enabled, ingress.host.as_deref()), (Some(true), Some("h")));
    let plain = graph(BETA, &json!({"components": [{"name": "a"}]}));
    assert_eq!(older_form(&serde_json::from_value(plain).expect("a graph")), None);
}
