//! The definitions of the resources as an API server takes them, made from the types.
//!
//! ```text
//!   types ── derive ──► schemas ── tidy ──► one definition per kind, all versions served ──► crds/*.yaml
//!                                                  ▲
//!                    operator at run time: its webhook service and certificate
//! ```
//!
//! Unknown fields below `spec` and `status` are kept at every depth: a manifest for a newer release loses nothing.

use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, ServiceReference, WebhookClientConfig, WebhookConversion,
};
use kube::core::crd::merge_crds;
use kube::{CustomResourceExt, ResourceExt as _};
use serde_json::{Map, Value};

use crate::{v1alpha1, v1beta1};

/// Path of the conversion webhook.
pub const CONVERSION_PATH: &str = "/convert";
/// Version in which graphs and adapters are stored: the one that clients are given unless they ask for another, so that
/// only those who use the older version need the conversion webhook.
pub const STORED_VERSION: &str = "v1beta1";

/// Service of the conversion webhook in the files of `crds/`. While no such service answers, requests in the older version
/// fail with a message that names it, and nothing is stored in the wrong form.
const UNSET_SERVICE: &str = "dynosim-webhook";
const UNSET_NAMESPACE: &str = "dynosim-system";

/// The definitions, by name of the file in `crds/`. What has two versions is converted by a webhook that
/// [`set_conversion`] is yet to name.
pub fn definitions() -> [CustomResourceDefinition; 3] {
    let graph = merged(v1alpha1::DynamoGraphDeployment::crd(), v1beta1::DynamoGraphDeployment::crd());
    let adapter = merged(
        v1alpha1::DynamoGraphDeploymentScalingAdapter::crd(),
        v1beta1::DynamoGraphDeploymentScalingAdapter::crd(),
    );
    let mut definitions = [graph, adapter, v1alpha1::DynamoWorkerMetadata::crd()];
    for definition in &mut definitions {
        set_conversion(definition, UNSET_NAMESPACE, UNSET_SERVICE, None);
        tidy_schemas(definition);
    }
    definitions
}

/// Sends conversions to a service at port 443, whose certificate an authority of `authorities` (PEM) has signed. A
/// definition with one version is left as it is.
pub fn set_conversion(
    definition: &mut CustomResourceDefinition,
    namespace: &str,
    service: &str,
    authorities: Option<&str>,
) {
    if definition.spec.versions.len() < 2 {
        return;
    }
    let service = ServiceReference {
        namespace: namespace.to_owned(),
        name: service.to_owned(),
        path: Some(CONVERSION_PATH.to_owned()),
        port: Some(443),
    };
    let ca_bundle = authorities.map(|pem| ByteString(pem.as_bytes().to_vec()));
    definition.spec.conversion = Some(CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig { ca_bundle, service: Some(service), url: None }),
            conversion_review_versions: vec!["v1".to_owned()],
        }),
    });
}

/// A definition as YAML.
pub fn yaml(definition: &CustomResourceDefinition) -> String {
    let body = serde_saphyr::to_string(definition).expect("a definition is YAML");
    format!("# Made from operator/api by `UPDATE_GOLDEN=1 cargo test -p dynosim-api definitions`; do not edit.\n{body}")
}

/// Name of a definition's file in `crds/`.
pub fn file_name(definition: &CustomResourceDefinition) -> String {
    format!("{}.yaml", definition.name_any())
}

fn merged(older: CustomResourceDefinition, newer: CustomResourceDefinition) -> CustomResourceDefinition {
    merge_crds(vec![older, newer], STORED_VERSION).expect("two versions of one kind")
}

fn tidy_schemas(definition: &mut CustomResourceDefinition) {
    for version in &mut definition.spec.versions {
        let schema = version.schema.as_mut().and_then(|validation| validation.open_api_v3_schema.as_mut());
        let properties = schema.and_then(|schema| schema.properties.as_mut()).expect("a derived schema");
        for part in ["spec", "status"] {
            if let Some(schema) = properties.get_mut(part) {
                let mut value = serde_json::to_value(&*schema).expect("a schema is JSON");
                tidy(&mut value);
                *schema = serde_json::from_value(value).expect("still a schema");
            }
        }
    }
}

/// Removes what the derived schemas say of Rust and not of the API: `null` for what is not given (API servers drop nulls of
/// fields that are not nullable), defaults that stand for nothing, line breaks of comments. Keeps unknown fields, and numbers
/// in the range of their type.
fn tidy(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    fields.remove("nullable");
    if fields.get("default").is_some_and(is_nothing) {
        fields.remove("default");
    }
    // API servers take a format for a comment.
    if fields.get("format").is_some_and(|format| format == "int32") {
        fields.entry("maximum").or_insert(i32::MAX.into());
    }
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if matches!(fields.get("additionalProperties"), Some(Value::Bool(true))) {
        fields.remove("additionalProperties");
        keep_unknown(fields);
    }
    if fields.contains_key("properties") {
        keep_unknown(fields);
    }
    for list in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(list) {
            tidy(inner);
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(tidy);
    }
}

fn keep_unknown(fields: &mut Map<String, Value>) {
    fields.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
}

/// The default of a Rust type, and no choice of the API.
fn is_nothing(default: &Value) -> bool {
    match default {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
