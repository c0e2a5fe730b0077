//! The definitions as files, and what API servers ask of them.

use std::path::Path;

use dynosim_api::crd;
use serde_json::Value;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds")
}

#[test]
fn crds_holds_the_definitions_made_from_the_types() {
    let definitions = crd::definitions();
    for definition in &definitions {
        dynosim_peers::assert_golden(&folder().join(crd::file_name(definition)), &crd::yaml(definition));
    }
    let files = std::fs::read_dir(folder()).expect("a folder").count();
    assert_eq!(files, definitions.len(), "a file of crds/ has no definition");
}

/// Every schema inside a schema, with its path.
fn walk(path: &str, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), inner, visit);
    }
    for list in ["items", "additionalProperties"] {
        if schema[list].is_object() {
            walk(&format!("{path}[]"), &schema[list], visit);
        }
    }
}

fn schemas(visit: &mut dyn FnMut(&str, &Value)) {
    for definition in crd::definitions() {
        for version in &definition.spec.versions {
            let schema = version.schema.as_ref().expect("a schema").open_api_v3_schema.as_ref().expect("a schema");
            let schema = serde_json::to_value(schema).expect("JSON");
            for part in ["spec", "status"] {
                if schema["properties"][part].is_object() {
                    let path = format!("{}/{} {part}", definition.spec.names.kind, version.name);
                    walk(&path, &schema["properties"][part], visit);
                }
            }
        }
    }
}

#[test]
fn every_field_is_described_in_words_of_our_own() {
    let mut count = 0;
    schemas(&mut |path, schema| {
        count += 1;
        let text = schema["description"].as_str().unwrap_or_default();
        assert!(!text.is_empty() || path.ends_with("[]"), "{path} has no description");
        assert!(!text.contains('\n') && !text.contains("k8s.io"), "{path}: {text}");
    });
    assert!(count > 200, "{count} fields");
}

#[test]
fn unknown_fields_are_kept_at_every_depth_and_nulls_are_not_stored() {
    schemas(&mut |path, schema| {
        if schema["properties"].is_object() {
            assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], true, "{path}");
        }
        assert!(schema["nullable"].is_null(), "{path} takes null");
        let format = schema["format"].as_str().unwrap_or("int32");
        assert!(["int32", "int64", "date-time"].contains(&format), "{path}: {format}");
    });
}

#[test]
fn defaults_are_the_choices_of_the_api_and_no_others() {
    let mut found = Vec::new();
    schemas(&mut |path, schema| {
        if !schema["default"].is_null() {
            found.push(format!("{path} = {}", schema["default"]));
        }
    });
    found.sort();
    let graph = |version: &str, list: &str| {
        [
            format!("DynamoGraphDeployment/{version} spec.restart.strategy.type = \"Sequential\""),
            format!("DynamoGraphDeployment/{version} spec.{list}[].multinode.nodeCount = 2"),
            format!("DynamoGraphDeployment/{version} status.state = \"initializing\""),
        ]
    };
    let mut expected = [graph("v1alpha1", "services"), graph("v1beta1", "components")].concat();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn definitions_are_small() {
    for definition in crd::definitions() {
        let bytes = crd::yaml(&definition).len();
        assert!(bytes < 100_000, "{}: {bytes} bytes", crd::file_name(&definition));
    }
}

#[test]
fn the_webhook_is_set_where_there_is_something_to_convert() {
    for mut definition in crd::definitions() {
        let versions = definition.spec.versions.len();
        crd::set_conversion(&mut definition, "here", "operator", Some("a certificate"));
        let json = serde_json::to_value(&definition.spec.conversion).expect("JSON");
        if versions == 1 {
            assert_eq!(json, Value::Null);
            continue;
        }
        let config = &json["webhook"]["clientConfig"];
        assert_eq!(config["service"]["namespace"], "here");
        assert_eq!(config["service"]["name"], "operator");
        assert_eq!(config["service"]["path"], crd::CONVERSION_PATH);
        assert_eq!(config["caBundle"], "YSBjZXJ0aWZpY2F0ZQ==");
    }
}
