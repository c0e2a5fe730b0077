//! Whether an object of the cluster is as it is wanted, so that nothing is written where nothing would change.
//!
//! Two things count: every field that is wanted is there with its value, and the operator owns no field that is not wanted.
//! The second is what the server keeps in `managedFields`. Fields that others added are theirs.

use serde_json::Value;

/// The field manager of all that the operator applies.
pub const MANAGER: &str = "dynosim-operator";

/// Lists that the server merges by a key of their items: others may have added some.
const MERGED: [&str; 13] = [
    "claims",
    "containers",
    "env",
    "hostAliases",
    "imagePullSecrets",
    "initContainers",
    "ownerReferences",
    "ports",
    "resourceClaims",
    "topologySpreadConstraints",
    "volumeDevices",
    "volumeMounts",
    "volumes",
];
/// Fields whose texts, or whose fields' texts, are amounts: the server writes them in its own way.
const AMOUNTS: [&str; 4] = ["limits", "requests", "sizeLimit", "divisor"];

/// An object is as it is wanted. Which type it has is known: lists leave that out.
pub fn is_as_wanted(live: &Value, wanted: &Value) -> bool {
    let fields = wanted.as_object().into_iter().flatten();
    let mut contents = fields.filter(|(field, _)| !["apiVersion", "kind"].contains(&field.as_str()));
    contents.all(|(field, wanted)| match live.get(field) {
        Some(live) => covers(field, live, wanted),
        None => is_nothing(wanted),
    }) && !owns_more(live, wanted)
}

/// Every wanted field is there.
fn covers(name: &str, live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(field, wanted)| {
            let within = if AMOUNTS.contains(&name) { name } else { field.as_str() };
            match live.get(field) {
                Some(live) => covers(within, live, wanted),
                None => is_nothing(wanted),
            }
        }),
        (Value::Array(live), Value::Array(wanted)) => {
            let may_be_more = MERGED.contains(&name);
            if !may_be_more && live.len() != wanted.len() {
                return false;
            }
            if wanted.iter().all(Value::is_object) {
                wanted.iter().all(|wanted| live.iter().any(|live| covers("", live, wanted)))
            } else {
                live == wanted
            }
        }
        (Value::String(live), Value::String(wanted)) if AMOUNTS.contains(&name) => {
            live == wanted || amount(live).zip(amount(wanted)).is_some_and(|(live, wanted)| same(live, wanted))
        }
        (live, wanted) => live == wanted,
    }
}

/// What the server leaves out when it is written.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_nothing),
    }
}

fn same(one: f64, other: f64) -> bool {
    (one - other).abs() <= one.abs().max(other.abs()) * 1e-9
}

/// An amount such as `500m` or `1Gi`.
fn amount(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 15] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    if let Ok(number) = text.parse::<f64>() {
        return Some(number);
    }
    let (digits, unit) = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)))?;
    digits.parse::<f64>().ok().map(|number| number * unit)
}

/// The operator owns a field that is not wanted any more.
fn owns_more(live: &Value, wanted: &Value) -> bool {
    let entries = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut own = entries.filter(|entry| is_own(entry));
    own.any(|entry| !wants_all(&entry["fieldsV1"], wanted))
}

/// An entry of `managedFields` is about what the operator applied, except for status.
fn is_own(entry: &Value) -> bool {
    entry["manager"] == MANAGER && entry["operation"] == "Apply" && entry["subresource"].is_null()
}

fn wants_all(fields: &Value, wanted: &Value) -> bool {
    let Value::Object(fields) = fields else { return true };
    fields.iter().all(|(path, below)| {
        let found = match path.split_once(':') {
            Some(("f", field)) => wanted.get(field),
            Some(("k", keys)) => serde_json::from_str(keys).ok().and_then(|keys| item(wanted, &keys)),
            Some(("v", value)) => serde_json::from_str::<Value>(value)
                .ok()
                .and_then(|value| wanted.as_array()?.iter().find(|item| **item == value)),
            // `.`: the object itself.
            _ => return true,
        };
        found.is_some_and(|found| wants_all(below, found))
    })
}

/// The item of a list with these keys; those that the server sets by itself may be missing.
fn item<'a>(wanted: &'a Value, keys: &Value) -> Option<&'a Value> {
    let keys = keys.as_object()?;
    wanted.as_array()?.iter().find(|item| {
        keys.iter().all(|(key, value)| match item.get(key) {
            Some(found) => found == value,
            None => key == "protocol" && value == "TCP",
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn live() -> Value {
        json!({
            "metadata": {
                "name": "a", "labels": {"l": "1", "theirs": "x"}, "uid": "u",
                "managedFields": [
                    {"manager": MANAGER, "operation": "Apply", "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:l": {}}},
                        "f:spec": {
                            "f:replicas": {},
                            "f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:name": {}, "f:args": {}, "f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}},
                                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}, "f:resources": {}}},
                        },
                    }},
                    {"manager": MANAGER, "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {}}},
                    {"manager": "other", "operation": "Apply", "fieldsV1": {"f:spec": {"f:paused": {}}}},
                ],
            },
            "spec": {
                "replicas": 2, "paused": false,
                "containers": [
                    {"name": "main", "image": "set by the server", "args": ["a", "b"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "theirs"}],
                     "ports": [{"containerPort": 80, "protocol": "TCP"}], "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}},
                    {"name": "injected"},
                ],
            },
        })
    }

    fn wanted() -> Value {
        json!({
            "metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {}},
            "spec": {
                "replicas": 2,
                "containers": [{"name": "main", "args": ["a", "b"], "env": [{"name": "A", "value": "1"}],
                    "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}}}],
            },
        })
    }

    #[test]
    fn what_the_server_and_others_added_is_no_difference() {
        let mut wanted = wanted();
        wanted["kind"] = "of a list".into();
        assert!(is_as_wanted(&live(), &wanted));
    }

    #[test]
    fn every_other_value_is_a_difference() {
        let changes: [(&str, Value); 9] = [
            ("/metadata/labels/l", json!("2")),
            ("/spec/replicas", json!(3)),
            ("/spec/containers/0/args", json!(["b", "a"])),
            ("/spec/containers/0/args", json!(["a"])),
            ("/spec/containers/0/env/0/value", json!("2")),
            ("/spec/containers/0/env/0/name", json!("C")),
            ("/spec/containers/0/ports/0/containerPort", json!(81)),
            ("/spec/containers/0/resources/limits/cpu", json!("501m")),
            ("/spec/containers/0/name", json!("other")),
        ];
        for (path, value) in changes {
            let mut other = live();
            *other.pointer_mut(path).expect("a field") = value.clone();
            assert!(!is_as_wanted(&other, &wanted()), "{path} {value}");
        }
    }

    #[test]
    fn what_is_not_wanted_any_more_is_a_difference() {
        for path in ["/metadata/labels", "/spec/containers/0/env", "/spec/containers/0/ports"] {
            let mut less = wanted();
            *less.pointer_mut(path).expect("a field") = if path.ends_with("labels") { json!({}) } else { json!([]) };
            assert!(!is_as_wanted(&live(), &less), "{path}");
        }
        let mut less = wanted();
        less["spec"].as_object_mut().expect("fields").remove("replicas");
        assert!(!is_as_wanted(&live(), &less));
    }

    #[test]
    fn lists_that_are_replaced_as_a_whole_must_be_equal() {
        let rules = |rules: Value| json!({"rules": rules});
        let one = json!({"verbs": ["get"]});
        assert!(is_as_wanted(&rules(json!([one])), &rules(json!([one]))));
        assert!(!is_as_wanted(&rules(json!([one, {"verbs": ["delete"]}])), &rules(json!([one]))));
    }

    #[test]
    fn amounts_are_compared_by_what_they_mean() {
        for (one, other) in [("1", "1000m"), ("0.1", "100m"), ("1Gi", "1024Mi"), ("1k", "1000"), ("2e3", "2k")] {
            assert!(same(amount(one).expect("one"), amount(other).expect("other")), "{one} {other}");
        }
        assert_eq!(amount("x"), None);
    }
}
