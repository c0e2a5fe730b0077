//! Fields of an object that its definition does not know. They are kept and have no effect, so whoever writes one, perhaps
//! for want of a letter, is better told.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

use crate::crd;

/// Schemas by `apiVersion` and kind.
static SCHEMAS: LazyLock<BTreeMap<(String, String), JSONSchemaProps>> = LazyLock::new(|| {
    let mut schemas = BTreeMap::new();
    for definition in crd::definitions() {
        let spec = definition.spec;
        for version in spec.versions {
            let api_version = format!("{}/{}", spec.group, version.name);
            if let Some(schema) = version.schema.and_then(|schema| schema.open_api_v3_schema) {
                schemas.insert((api_version, spec.names.kind.clone()), schema);
            }
        }
    }
    schemas
});

/// Fields that hold parts of pods. Their schemas name the fields that most manifests write, and not all that there are.
const OPEN: [&str; 4] = ["podTemplate", "extraPodSpec", "livenessProbe", "readinessProbe"];

/// Paths of the fields in the spec that the definition of the object does not know; none for kinds that are not ours.
pub fn unknown_fields(object: &Value) -> Vec<String> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    if let Some(schema) = SCHEMAS.get(&(text("apiVersion"), text("kind")))
        && let Some(spec) = schema.properties.as_ref().and_then(|properties| properties.get("spec"))
    {
        look("spec", spec, &object["spec"], &mut found);
    }
    found
}

fn look(path: &str, schema: &JSONSchemaProps, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match (field(schema, name), &schema.properties) {
                    _ if OPEN.contains(&name.as_str()) => {}
                    (Some(schema), _) => look(&path, schema, value, found),
                    // Without any properties it takes all fields.
                    (None, Some(_)) => found.push(path),
                    (None, None) => {}
                }
            }
        }
        Value::Array(items) => {
            if let Some(JSONSchemaPropsOrArray::Schema(schema)) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    look(&format!("{path}[{index}]"), schema, item, found);
                }
            }
        }
        _ => {}
    }
}

fn field<'a>(schema: &'a JSONSchemaProps, name: &str) -> Option<&'a JSONSchemaProps> {
    let any = || match &schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(schema)) => Some(&**schema),
        _ => None,
    };
    schema.properties.as_ref().and_then(|properties| properties.get(name)).or_else(any)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_nobody_knows_are_named_by_their_path() {
        let graph = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "spec": {
                "enviroment": [],
                "labels": {"any": "label"},
                "restart": {"id": "1", "strategy": {"typ": "Parallel"}},
                "topologyConstraint": {"any": "field"},
                "components": [
                    {"name": "a", "podTemplate": {"spec": {"nodeSelector": {}}}},
                    {"name": "b", "replica": 2, "modelRef": {"name": "m", "x": 1}, "scalingAdapter": {"x": 1}},
                ],
            },
        });
        assert_eq!(
            unknown_fields(&graph),
            [
                "spec.components[1].modelRef.x",
                "spec.components[1].replica",
                "spec.enviroment",
                "spec.restart.strategy.typ",
            ]
        );
    }

    #[test]
    fn the_older_version_has_fields_of_its_own() {
        let graph = json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
            "spec": {"components": [], "services": {"a": {"env": [], "envs": [{"name": "A", "values": ""}], "ingress": {"tsl": {}}}}},
        });
        assert_eq!(
            unknown_fields(&graph),
            ["spec.components", "spec.services.a.env", "spec.services.a.envs[0].values", "spec.services.a.ingress.tsl"]
        );
    }

    #[test]
    fn other_kinds_and_forms_have_none() {
        assert!(unknown_fields(&json!({"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}})).is_empty());
        assert!(unknown_fields(&json!([])).is_empty());
    }
}
