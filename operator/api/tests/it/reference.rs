//! The reference of the API, kept as `docs/api.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use dynosim_api::crd;
use serde_json::Value;

#[test]
fn docs_api_md_holds_every_field_of_the_definitions() {
    let mut page = include_str!("reference/head.md").to_owned();
    for definition in crd::definitions() {
        for version in &definition.spec.versions {
            let schema = version.schema.as_ref().expect("a schema").open_api_v3_schema.as_ref().expect("a schema");
            let schema = serde_json::to_value(schema).expect("JSON");
            write!(page, "\n## `{}` {}\n\n", definition.spec.names.kind, version.name).expect("a string takes it");
            page.push_str("| field | type | rules | |\n|---|---|---|---|\n");
            for part in ["spec", "status"] {
                if schema["properties"][part].is_object() {
                    let schema = &schema["properties"][part];
                    let mut messages = Messages::new();
                    collect(part, schema, &mut messages);
                    rows(part, schema, &messages, &mut page);
                }
            }
        }
    }
    assert!(page.lines().count() > 300, "{page}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    dynosim_peers::assert_golden(&file, &page);
}

/// Messages of rules by the path of the field that they are about.
type Messages = BTreeMap<String, Vec<String>>;

fn collect(path: &str, schema: &Value, messages: &mut Messages) {
    for rule in list(&schema["x-kubernetes-validations"]) {
        let about = format!("{path}{}", rule["fieldPath"].as_str().unwrap_or_default());
        let message = rule["message"].as_str().expect("a rule has a message");
        messages.entry(about).or_default().push(message.to_owned());
    }
    for (path, field) in below(path, schema) {
        collect(&path, field, messages);
    }
}

/// The schemas right below one, with their paths.
fn below<'a>(path: &'a str, schema: &'a Value) -> impl Iterator<Item = (String, &'a Value)> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let lists = [("[]", "items"), (".NAME", "additionalProperties")].into_iter();
    let fields = properties.map(move |(name, field)| (format!("{path}.{name}"), field));
    let lists = lists.map(move |(step, list)| (format!("{path}{step}"), &schema[list]));
    fields.chain(lists.filter(|(_, schema)| schema.is_object()))
}

/// A row for each field below a schema.
fn rows(path: &str, schema: &Value, messages: &Messages, page: &mut String) {
    let required: BTreeSet<_> = list(&schema["required"]).filter_map(Value::as_str).collect();
    for (path, field) in below(path, schema) {
        let name = path.rsplit('.').next().unwrap_or_default();
        if !path.ends_with("[]") && name != "NAME" {
            let mut rules = rules(field);
            let about = [path.clone(), format!("{path}[]"), format!("{path}.NAME")];
            rules.extend(about.iter().filter_map(|path| messages.get(path)).flatten().cloned());
            if required.contains(name) {
                rules.insert(0, "required".to_owned());
            }
            let text = field["description"].as_str().unwrap_or_default();
            let rules = rules.join("; ").replace('|', "\\|");
            writeln!(page, "| `{path}` | {} | {rules} | {text} |", kind(field)).expect("a string takes it");
        }
        rows(&path, field, messages, page);
    }
}

fn kind(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "quantity".to_owned();
    }
    match schema["type"].as_str() {
        Some("string") if schema["format"] == "date-time" => "time".to_owned(),
        Some("string") => "text".to_owned(),
        Some("integer") => "number".to_owned(),
        Some("array") => format!("list of {}", kind(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map to {}", kind(&schema["additionalProperties"]))
        }
        Some(other) => other.to_owned(),
        None => "any".to_owned(),
    }
}

fn rules(schema: &Value) -> Vec<String> {
    let mut rules = Vec::new();
    let values: Vec<_> = list(&schema["enum"]).map(|value| format!("`{}`", value.as_str().expect("a text"))).collect();
    if !values.is_empty() {
        rules.push(values.join(", "));
    }
    for (field, words) in [
        ("minimum", "at least"),
        ("minItems", "items: at least"),
        ("maxItems", "items: at most"),
        ("minProperties", "entries: at least"),
        ("maxProperties", "entries: at most"),
        ("minLength", "characters: at least"),
        ("maxLength", "characters: at most"),
    ] {
        if let Some(number) = schema[field].as_f64() {
            rules.push(format!("{words} {number}"));
        }
    }
    if let Some(pattern) = schema["pattern"].as_str().filter(|_| schema["x-kubernetes-int-or-string"] != true) {
        rules.push(format!("`{pattern}`"));
    }
    let keys: Vec<_> = list(&schema["x-kubernetes-list-map-keys"]).filter_map(Value::as_str).collect();
    if !keys.is_empty() {
        rules.push(format!("unique by `{}`", keys.join("`, `")));
    }
    if !schema["default"].is_null() {
        rules.push(format!(
            "default `{}`",
            schema["default"].as_str().map_or(schema["default"].to_string(), str::to_owned)
        ));
    }
    rules
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
