//! Every condition that was tried on release 1.6.1, by table.
#![allow(clippy::needless_pass_by_value, reason = "`json!` is written where it is used")]

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;

const UID: &str = "u-1";

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("an object")
}

/// A slice with these endpoints.
fn slice(endpoints: Value) -> DynamicObject {
    object(json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": endpoints, "ports": null}))
}

/// An endpoint that is ready, with some fields replaced.
fn endpoint(changes: Value) -> Value {
    let mut endpoint = json!({
        "addresses": ["10.0.0.7"],
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "targetRef": {"kind": "Pod", "namespace": "ns", "name": "w", "uid": UID},
    });
    let fields = endpoint.as_object_mut().expect("a map");
    for (name, value) in changes.as_object().expect("changes") {
        fields.insert(name.clone(), value.clone());
    }
    endpoint
}

fn covered(vouches: &[Vouch], name: &str, owners: &[&str]) -> bool {
    let owners: Vec<_> = owners.iter().map(|owner| (*owner).to_owned()).collect();
    vouches.iter().collect::<Ready<'_>>().covers(name, &owners)
}

#[test]
fn an_object_counts_if_its_pod_is_ready_in_a_slice() {
    for (what, changes, listed) in [
        ("as the slice controller writes it", json!({}), true),
        ("ready, not serving", json!({"conditions": {"ready": true, "serving": false}}), true),
        ("ready and terminating", json!({"conditions": {"ready": true, "terminating": true}}), true),
        ("ready and nothing else", json!({"conditions": {"ready": true}}), true),
        ("without conditions", json!({"conditions": null}), false),
        ("empty conditions", json!({"conditions": {}}), false),
        ("ready is null", json!({"conditions": {"ready": null}}), false),
        ("not ready", json!({"conditions": {"ready": false}}), false),
        ("not ready but serving", json!({"conditions": {"ready": false, "serving": true}}), false),
        ("without a target", json!({"targetRef": null}), false),
        ("a target without name", json!({"targetRef": {"kind": "Pod", "uid": UID}}), false),
        ("a target without uid", json!({"targetRef": {"kind": "Pod", "name": "w"}}), false),
        ("a target with empty uid", json!({"targetRef": {"kind": "Pod", "name": "w", "uid": ""}}), false),
        ("another pod by that name", json!({"targetRef": {"kind": "Pod", "name": "w", "uid": "u-2"}}), false),
        ("another name", json!({"targetRef": {"kind": "Pod", "name": "v", "uid": UID}}), false),
        ("a node", json!({"targetRef": {"kind": "Node", "name": "w", "uid": UID}}), true),
        ("of another namespace", json!({"targetRef": {"name": "w", "uid": UID, "namespace": "other"}}), true),
        ("name and uid only", json!({"targetRef": {"name": "w", "uid": UID}}), true),
        ("addresses do not count", json!({"addresses": ["no.such.host"]}), true),
    ] {
        let vouches = ready_pods(&slice(json!([endpoint(changes)])));
        assert_eq!(covered(&vouches, "w", &[UID]), listed, "{what}");
    }
    for (what, slice) in [
        ("endpoints are null", slice(Value::Null)),
        ("no endpoints", slice(json!([]))),
        ("endpoints are absent", object(json!({"metadata": {"name": "s"}}))),
    ] {
        assert_eq!(ready_pods(&slice), [], "{what}");
    }
}

#[test]
fn ports_and_kind_of_address_of_a_slice_do_not_count() {
    for (kind, ports) in [("IPv6", json!([])), ("FQDN", json!([{"port": 1}])), ("IPv4", Value::Null)] {
        let slice = object(json!({"metadata": {"name": "s"}, "addressType": kind, "ports": ports,
            "endpoints": [endpoint(json!({}))]}));
        assert!(covered(&ready_pods(&slice), "w", &[UID]), "{kind}");
    }
}

#[test]
fn a_pod_in_several_slices_is_ready_if_one_says_so() {
    let ready = ready_pods(&slice(json!([endpoint(json!({}))])));
    let unready = ready_pods(&slice(json!([endpoint(json!({"conditions": {"ready": false}}))])));
    assert!(covered(&[ready.clone(), ready.clone()].concat(), "w", &[UID]));
    assert!(covered(&[ready.clone(), unready.clone()].concat(), "w", &[UID]));
    assert!(covered(&[unready, ready].concat(), "w", &[UID]));
}

#[test]
fn two_ready_pods_of_one_name_contradict_each_other() {
    let of = |uid: &str| ready_pods(&slice(json!([endpoint(json!({"targetRef": {"name": "w", "uid": uid}}))])));
    for order in [["u-1", "u-2"], ["u-2", "u-1"]] {
        let vouches = order.map(of).concat();
        assert!(!covered(&vouches, "w", &["u-1"]) && !covered(&vouches, "w", &["u-2"]));
        let three = [vouches, of("u-1")].concat();
        assert!(!covered(&three, "w", &["u-1"]), "a third does not decide it");
    }
    // A predecessor that is not ready any more does not count.
    let old = endpoint(json!({"targetRef": {"name": "w", "uid": "u-0"}, "conditions": {"ready": false}}));
    assert!(covered(&ready_pods(&slice(json!([old, endpoint(json!({}))]))), "w", &[UID]));
}

#[test]
fn an_object_must_be_owned_by_the_pod_that_is_ready() {
    let vouches = ready_pods(&slice(json!([endpoint(json!({}))])));
    for (what, owners, listed) in [
        ("the pod", &["u-1"][..], true),
        ("the pod among others", &["u-0", "u-1"], true),
        ("nobody", &[], false),
        ("another pod", &["u-2"], false),
    ] {
        assert_eq!(covered(&vouches, "w", owners), listed, "{what}");
    }
    assert!(!covered(&vouches, "v", &[UID]), "an object that is not called as the pod");
}

/// A pod with containers that are ready or not.
fn pod(name: &str, containers: &[(&str, bool)], more: Value) -> DynamicObject {
    let status = |(name, ready): &(&str, bool)| json!({"name": name, "ready": ready, "restartCount": 0, "image": "i"});
    let mut metadata = json!({"name": name, "uid": UID});
    for (field, value) in more.as_object().expect("fields") {
        metadata[field] = value.clone();
    }
    let statuses: Vec<_> = containers.iter().map(status).collect();
    object(json!({"metadata": metadata, "spec": {"containers": []}, "status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": statuses}}))
}

#[test]
fn in_container_mode_each_ready_container_counts_whatever_the_pod_is() {
    let vouches = ready_containers(&pod("w", &[("main", true), ("side", true), ("other", false)], json!({})));
    for (object, listed) in [("w", true), ("w-side", true), ("w-other", false), ("w-main", false), ("side", false)] {
        assert_eq!(covered(&vouches, object, &[UID]), listed, "{object}");
        assert!(!covered(&vouches, object, &["u-2"]), "{object} of another pod");
    }
}

#[test]
fn pods_without_containers_yet_and_pods_that_are_being_deleted_vouch_for_nothing() {
    let deleted = json!({"deletionTimestamp": "2026-12-01T00:00:00Z"});
    assert_eq!(ready_containers(&pod("w", &[("main", true)], deleted)), []);
    assert_eq!(ready_containers(&pod("w", &[], json!({}))), []);
    for status in [json!({}), Value::Null, json!({"containerStatuses": null})] {
        assert_eq!(ready_containers(&object(json!({"metadata": {"name": "w", "uid": UID}, "status": status}))), []);
    }
    assert_eq!(ready_containers(&object(json!({"metadata": {"name": "w"}}))), []);
}

#[test]
fn in_pod_mode_only_the_main_container_of_a_ready_pod_is_seen() {
    // The objects of containers that are not called main have names that no pod has.
    let vouches = ready_pods(&slice(json!([endpoint(json!({}))])));
    assert!(covered(&vouches, "w", &[UID]) && !covered(&vouches, "w-side", &[UID]));
}
