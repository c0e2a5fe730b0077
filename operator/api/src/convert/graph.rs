//! Graphs and their components.

use serde_json::{Value, json};

use super::{Fields, Translation, pod, put_list, put_object, rename, take_list, take_object};

pub(super) const TRANSLATION: Translation = Translation {
    to_beta,
    to_alpha,
    alpha_group: |at| group(at, "services"),
    beta_group: |at| group(at, "components"),
};

/// Fields that only the older version has.
const ALPHA_ONLY: [&str; 4] = ["serviceName", "dynamoNamespace", "autoscaling", "ingress"];
/// Fields that the newer version has inside `experimental`.
const EXPERIMENTAL: [&str; 3] = ["checkpoint", "gpuMemoryService", "failover"];
/// Types that the newer version knows.
const TYPES: [&str; 6] = ["frontend", "worker", "prefill", "decode", "planner", "epp"];

/// A component's fields for its pods belong together, as do the two for its type.
fn group(at: &[String], components: &str) -> Vec<String> {
    let Some([part, list, name, field]) = at.first_chunk() else { return at.to_vec() };
    if (part.as_str(), list.as_str()) != ("spec", components) {
        return at.to_vec();
    }
    let topic = match field.as_str() {
        "componentType" | "subComponentType" => "type",
        field if pod::ALPHA_FIELDS.contains(&field) || pod::BETA_FIELDS.contains(&field) => "pod",
        field => field,
    };
    [part, list, name, topic].map(str::to_owned).to_vec()
}

fn to_beta(mut graph: Fields) -> Fields {
    if let Some(mut spec) = take_object(&mut graph, "spec") {
        spec.remove("pvcs");
        if let Some(services) = take_object(&mut spec, "services") {
            let graph_env = spec.get("envs").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let component = |(name, service)| component_to_beta(name, service, graph_env);
            let components: Vec<_> = services.into_iter().map(component).collect();
            spec.insert("components".to_owned(), components.into());
        }
        rename(&mut spec, "envs", "env");
        graph.insert("spec".to_owned(), spec.into());
    }
    if let Some(mut status) = take_object(&mut graph, "status") {
        if let Some(Value::Object(services)) = status.get_mut("services") {
            for service in services.values_mut().filter_map(Value::as_object_mut) {
                service.remove("componentName");
            }
        }
        rename(&mut status, "services", "components");
        rename_updated(&mut status, "updatedServices", "updatedComponents");
        graph.insert("status".to_owned(), status.into());
    }
    graph
}

fn to_alpha(mut graph: Fields) -> Fields {
    if let Some(mut spec) = take_object(&mut graph, "spec") {
        if let Some(components) = take_list(&mut spec, "components") {
            match components.iter().cloned().map(component_to_alpha).collect::<Option<Fields>>() {
                Some(services) => spec.insert("services".to_owned(), services.into()),
                None => spec.insert("components".to_owned(), components.into()),
            };
        }
        rename(&mut spec, "env", "envs");
        graph.insert("spec".to_owned(), spec.into());
    }
    if let Some(mut status) = take_object(&mut graph, "status") {
        if let Some(Value::Object(components)) = status.get_mut("components") {
            for component in components.values_mut().filter_map(Value::as_object_mut) {
                if let Some(first) = component.get("componentNames").and_then(|names| names.get(0)).cloned() {
                    component.insert("componentName".to_owned(), first);
                }
            }
        }
        rename(&mut status, "components", "services");
        rename_updated(&mut status, "updatedComponents", "updatedServices");
        graph.insert("status".to_owned(), status.into());
    }
    graph
}

fn rename_updated(status: &mut Fields, from: &str, to: &str) {
    if let Some(Value::Object(update)) = status.get_mut("rollingUpdate") {
        rename(update, from, to);
    }
}

fn component_to_beta(name: String, service: Value, graph_env: &[Value]) -> Value {
    let Value::Object(mut fields) = service else { return json!({"name": name}) };
    for field in ALPHA_ONLY {
        fields.remove(field);
    }
    type_to_beta(&mut fields);
    if let Some(mut adapter) = take_object(&mut fields, "scalingAdapter") {
        if adapter.remove("enabled") == Some(Value::Bool(true)) {
            fields.insert("scalingAdapter".to_owned(), adapter.into());
        }
    }
    if let Some(memory) = take_object(&mut fields, "sharedMemory") {
        let size = match memory.get("disabled") {
            Some(Value::Bool(true)) => Some("0".into()),
            _ => memory.get("size").cloned(),
        };
        if let Some(size) = size {
            fields.insert("sharedMemorySize".to_owned(), size);
        }
    }
    let mut experimental = take_object(&mut fields, "experimental").unwrap_or_default();
    for field in EXPERIMENTAL {
        if let Some(value) = fields.remove(field) {
            experimental.insert(field.to_owned(), value);
        }
    }
    put_object(&mut fields, "experimental", experimental);
    pod::to_beta(&mut fields, graph_env);
    fields.insert("name".to_owned(), name.into());
    fields.into()
}

/// None if it has no name, which no service can be without.
fn component_to_alpha(component: Value) -> Option<(String, Value)> {
    let Value::Object(mut fields) = component else { return None };
    let Some(Value::String(name)) = fields.remove("name") else { return None };
    match fields.remove("type") {
        Some(Value::String(kind)) if kind == "prefill" || kind == "decode" => {
            fields.insert("componentType".to_owned(), "worker".into());
            fields.insert("subComponentType".to_owned(), kind.into());
        }
        Some(kind) => drop(fields.insert("componentType".to_owned(), kind)),
        None => {}
    }
    if let Some(mut adapter) = take_object(&mut fields, "scalingAdapter") {
        adapter.insert("enabled".to_owned(), true.into());
        fields.insert("scalingAdapter".to_owned(), adapter.into());
    }
    if let Some(size) = fields.remove("sharedMemorySize") {
        let none = size == json!("0") || size == json!(0);
        fields.insert("sharedMemory".to_owned(), if none { json!({"disabled": true}) } else { json!({"size": size}) });
    }
    if let Some(mut experimental) = take_object(&mut fields, "experimental") {
        for field in EXPERIMENTAL {
            if let Some(value) = experimental.remove(field) {
                fields.insert(field.to_owned(), value);
            }
        }
        put_object(&mut fields, "experimental", experimental);
    }
    let mut mounts = Vec::new();
    if let Some(cache) = take_object(&mut fields, "compilationCache") {
        let mut mount = Fields::from_iter([("useAsCompilationCache".to_owned(), true.into())]);
        for (from, to) in [("pvcName", "name"), ("mountPath", "mountPoint")] {
            if let Some(value) = cache.get(from) {
                mount.insert(to.to_owned(), value.clone());
            }
        }
        mounts.push(mount.into());
    }
    pod::to_alpha(&mut fields);
    put_list(&mut fields, "volumeMounts", mounts);
    Some((name, fields.into()))
}

fn type_to_beta(fields: &mut Fields) {
    let text = |value: Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
    let (kind, sub) = (text(fields.remove("componentType")), text(fields.remove("subComponentType")));
    let kind = match (kind.as_deref(), sub.as_deref()) {
        (Some("worker"), Some(sub @ ("prefill" | "decode"))) => sub,
        (Some(kind), _) if TYPES.contains(&kind) => kind,
        // Without defaults, as one without a type.
        _ => return,
    };
    fields.insert("type".to_owned(), kind.into());
}
