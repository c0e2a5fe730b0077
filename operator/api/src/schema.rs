//! Schemas of fields that the API server checks less closely than their types do: pods, which are large and which are
//! checked once there are any, and objects that are only kept.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// An amount as Kubernetes writes it, not negative.
const QUANTITY: &str = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";

/// An object whose fields are kept as they are.
pub(crate) fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A list of objects whose fields are kept as they are.
pub(crate) fn objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
}

/// Anything at all.
pub(crate) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// A number, or a text as `500m` or `8Gi`.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true, "pattern": QUANTITY})
}

/// A time.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// Entries of an environment.
pub(crate) fn env(_: &mut SchemaGenerator) -> Schema {
    schema(env_entries())
}

/// A probe.
pub(crate) fn probe(_: &mut SchemaGenerator) -> Schema {
    let number = |description: &str| json!({"type": "integer", "format": "int32", "description": description});
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "initialDelaySeconds": number("Seconds before the first try."),
            "periodSeconds": number("Seconds between tries."),
            "timeoutSeconds": number("Seconds that a try may take."),
            "failureThreshold": number("Failed tries in a row that count."),
        },
    })
}

/// Conditions, by type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string", "description": "What it is about."},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "Whether it is so."},
                "reason": {"type": "string", "description": "Why, in one word."},
                "message": {"type": "string", "description": "Why, in words."},
                "lastTransitionTime": {
                    "type": "string", "format": "date-time", "description": "When the status last changed.",
                },
                "observedGeneration": {
                    "type": "integer", "format": "int64", "description": "The generation of the object that it is about.",
                },
            },
        },
    })
}

/// A pod template, of which the parts that most manifests write are described.
pub(crate) fn pod_template(_: &mut SchemaGenerator) -> Schema {
    let texts = |description: &str| json!({"type": "object", "additionalProperties": {"type": "string"}, "description": description});
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "metadata": {
                "type": "object",
                "description": "Labels and annotations of the pods.",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "labels": texts("Labels of the pods."),
                    "annotations": texts("Annotations of the pods."),
                },
            },
            "spec": {
                "type": "object",
                "description": "Any field of a pod's spec.",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "containers": containers("Containers by name; `main` runs the component."),
                    "initContainers": containers("Containers that run first, by name."),
                },
            },
        },
    })
}

/// Fields of a container that most manifests write.
pub(crate) fn container_fields() -> Value {
    let words = |description: &str| json!({"type": "array", "items": {"type": "string"}, "description": description});
    json!({
        "image": {"type": "string", "description": "Image."},
        "command": words("Program and first arguments; not given: those of the component's type."),
        "args": words("Arguments."),
        "workingDir": {"type": "string", "description": "Folder that the program starts in."},
        "env": described(env_entries(), "Environment; wins over the graph's by name."),
        "envFrom": {
            "type": "array",
            "description": "Secrets and config maps whose entries become environment.",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    })
}

fn containers(description: &str) -> Value {
    let mut properties = container_fields();
    properties["name"] = json!({"type": "string", "description": "Name; `main` runs the component."});
    json!({
        "type": "array",
        "description": description,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": properties,
        },
    })
}

fn env_entries() -> Value {
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name"],
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "name": {"type": "string", "description": "Name of the variable."},
                "value": {"type": "string", "description": "Value, in which `$(NAME)` stands for other variables."},
                "valueFrom": {
                    "type": "object",
                    "description": "Where the value comes from: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`.",
                    "x-kubernetes-preserve-unknown-fields": true,
                },
            },
        },
    })
}

fn described(mut schema: Value, description: &str) -> Value {
    schema["description"] = description.into();
    schema
}

fn schema(value: Value) -> Schema {
    value.try_into().expect("an object is a schema")
}
