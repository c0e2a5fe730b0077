//! Versions of an object, one after the other.
#![allow(clippy::needless_pass_by_value, reason = "`json!` is written where it is used")]

use serde_json::{Value, json};

use super::*;

fn version(uid: &str, version: u32, data: Value) -> DynamicObject {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "w", "uid": "pod"});
    let metadata = json!({"name": "w", "uid": uid, "resourceVersion": version.to_string(), "ownerReferences": [owner]});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"data": data}})).expect("an object")
}

fn endpoints(port: u16) -> Value {
    json!({"endpoints": {"x": {"type": "Endpoint", "namespace": "n", "component": "c", "endpoint": "e",
        "instance_id": 42, "transport": {"tcp": format!("h:{port}/2a/n/c/e")}}}})
}

/// Where the object's endpoint is.
fn address(published: &Published) -> Option<String> {
    published.records.iter().find_map(|(_, record)| match &**record {
        Record::Endpoint(record) => Some(format!("{:?}", record.transport)),
        _ => None,
    })
}

#[test]
fn a_version_that_cannot_be_read_leaves_the_good_one_before_in_force() {
    let good = Published::read(&version("a", 1, endpoints(1)), None);
    assert!(address(&good).is_some_and(|address| address.contains("h:1/")));
    for broken in [json!({"endpoints": {"x": {}}}), Value::Null, json!(7)] {
        let after = Published::read(&version("a", 2, broken), Some(&good));
        assert_eq!((address(&after), &after.owners), (address(&good), &good.owners));
        assert_eq!(after.refused.as_deref(), Some("2"));
        let repaired = Published::read(&version("a", 3, endpoints(3)), Some(&after));
        assert!(address(&repaired).is_some_and(|address| address.contains("h:3/")));
        assert_eq!(repaired.refused, None);
    }
}

#[test]
fn an_object_that_was_never_good_and_one_that_was_made_anew_say_nothing() {
    let broken = json!({"endpoints": {"x": {}}});
    assert_eq!(address(&Published::read(&version("a", 1, broken.clone()), None)), None);
    let good = Published::read(&version("a", 1, endpoints(1)), None);
    assert_eq!(address(&Published::read(&version("b", 2, broken), Some(&good))), None, "another object by that name");
}

#[test]
fn an_emptied_object_is_empty() {
    let good = Published::read(&version("a", 1, endpoints(1)), None);
    let emptied = Published::read(&version("a", 2, json!({"endpoints": null})), Some(&good));
    assert!(emptied.records.is_empty() && emptied.refused.is_none());
}
