//! Objects as they are written, and as others write them.
#![allow(clippy::needless_pass_by_value, reason = "`json!` is written where it is used")]

use super::*;
use crate::discovery::PodUnit;
use crate::discovery::record::tests::samples;

fn pod(unit: PodUnit) -> PodIdentity {
    PodIdentity { name: "worker-a".to_owned(), uid: "u-1".to_owned(), namespace: "ns".to_owned(), unit }
}

fn own(records: &[Record]) -> Own {
    records.iter().map(|record| (record.key(), Arc::new(record.to_value().expect("a value")))).collect()
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("an object")
}

fn with_data(data: Value) -> DynamicObject {
    object(json!({"metadata": {"name": "w"}, "spec": {"data": data}}))
}

fn endpoint() -> Value {
    json!({"type": "Endpoint", "namespace": "n", "component": "c", "endpoint": "e", "instance_id": 42,
        "transport": {"tcp": "h:1/2a/n/c/e"}})
}

#[test]
fn what_is_written_is_read_again_and_belongs_to_the_pod() {
    let samples = samples();
    let written = manifest(&pod(PodUnit::Pod), &own(&samples));
    assert_eq!(written["apiVersion"], "nvidia.com/v1alpha1");
    assert_eq!(written["kind"], "DynamoWorkerMetadata");
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "worker-a", "uid": "u-1", "controller": true,
        "blockOwnerDeletion": false});
    assert_eq!(written["metadata"], json!({"name": "worker-a", "ownerReferences": [owner]}));
    let object = object(written);
    assert_eq!(owners(&object), ["u-1"]);
    let mut read = records(&object).expect("good records");
    let mut samples = samples;
    read.sort_by_key(Record::key);
    samples.sort_by_key(Record::key);
    assert_eq!(read, samples);
    let mut models = own(&samples);
    models.retain(|key, _| key.bucket == Bucket::Models);
    assert_eq!(cards(&object), models);
}

#[test]
fn maps_and_keys_are_those_of_the_release() {
    let written = manifest(&pod(PodUnit::Pod), &own(&samples()));
    let data = &written["spec"]["data"];
    let maps: Vec<_> = data.as_object().expect("a map").keys().collect();
    assert_eq!(maps, ["endpoints", "event_channels", "event_sources", "model_cards"]);
    for (map, entries) in data.as_object().expect("a map") {
        for (key, record) in entries.as_object().expect("a map") {
            let kind = record["type"].as_str().expect("a type");
            let (wanted, start) = match map.as_str() {
                "endpoints" => ("Endpoint", "dynamo/backend/"),
                "model_cards" => ("Model", "dynamo/backend/generate/"),
                "event_channels" => ("EventChannel", "namespace/"),
                _ => ("EventSource", "namespace/"),
            };
            assert!(kind == wanted && key.starts_with(start), "{map}: {key} is {kind}");
        }
    }
    let empty = manifest(&pod(PodUnit::Pod), &Own::new());
    assert_eq!(
        empty["spec"]["data"],
        json!({"endpoints": {}, "event_channels": {}, "event_sources": {}, "model_cards": {}})
    );
}

#[test]
fn a_container_beside_the_main_one_is_not_the_controller() {
    let side = manifest(&pod(PodUnit::Container("side".to_owned())), &Own::new());
    assert_eq!(side["metadata"]["name"], "worker-a-side");
    let owner = &side["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["controller"], &owner["name"]), (&json!(false), &json!("worker-a")));
    let main = manifest(&pod(PodUnit::Container("main".to_owned())), &Own::new());
    assert_eq!(main, manifest(&pod(PodUnit::Pod), &Own::new()));
}

#[test]
fn keys_unknown_maps_and_empty_maps_do_not_matter() {
    for (what, data, count) in [
        ("any key", json!({"endpoints": {"x": endpoint()}}), 1),
        ("maps that are null", json!({"endpoints": null, "model_cards": null, "event_channels": null}), 0),
        ("no maps", json!({}), 0),
        ("an unknown map", json!({"endpoints": {"x": endpoint()}, "new": {"y": 1}}), 1),
    ] {
        assert_eq!(records(&with_data(data)).expect(what).len(), count, "{what}");
    }
    let mut more = endpoint();
    more["unknown"] = json!({"field": 1});
    assert_eq!(records(&with_data(json!({"endpoints": {"x": more}}))).expect("an unknown field").len(), 1);
}

#[test]
fn one_record_that_is_none_spoils_the_object_and_is_named() {
    let mut bad = endpoint();
    for (change, said) in [
        (json!({"type": "Other"}), "unknown variant `Other`"),
        (json!({"type": null}), "invalid type: null"),
        (json!({"transport": null}), "invalid type: null"),
        (json!({"instance_id": "42"}), "invalid type: string"),
    ] {
        let (name, value) = change.as_object().and_then(|fields| fields.iter().next()).expect("a change");
        let before = std::mem::replace(&mut bad[name], value.clone());
        let error = records(&with_data(json!({"endpoints": {"a": endpoint(), "b": bad}}))).expect_err(said);
        assert!(error.starts_with("spec.data.endpoints[b]: ") && error.contains(said), "{error}");
        bad[name] = before;
    }
    let missing = |field: &str| {
        let mut record = endpoint();
        record.as_object_mut().expect("a map").remove(field);
        records(&with_data(json!({"endpoints": {"b": record}}))).expect_err(field)
    };
    for field in ["type", "namespace", "component", "endpoint", "instance_id", "transport"] {
        assert!(missing(field).contains(&format!("missing field `{field}`")), "{}", missing(field));
    }
    let misplaced = records(&with_data(json!({"event_channels": {"b": endpoint()}}))).expect_err("misplaced");
    assert_eq!(misplaced, "spec.data.event_channels[b]: it belongs in endpoints");
}

#[test]
fn an_object_without_data_cannot_be_read() {
    for (value, said) in [
        (json!({"metadata": {"name": "w"}}), "spec.data is missing"),
        (json!({"metadata": {"name": "w"}, "spec": null}), "spec.data is missing"),
        (json!({"metadata": {"name": "w"}, "spec": {}}), "spec.data is missing"),
        (json!({"metadata": {"name": "w"}, "spec": {"data": null}}), "spec.data is missing"),
        (json!({"metadata": {"name": "w"}, "spec": {"data": 1}}), "spec.data is no map"),
        (json!({"metadata": {"name": "w"}, "spec": {"data": {"endpoints": []}}}), "spec.data.endpoints is no map"),
    ] {
        assert_eq!(records(&object(value)).expect_err(said), said);
    }
}

#[test]
fn a_card_that_cannot_be_read_spoils_its_model_only() {
    let mut model = endpoint();
    model["type"] = json!("Model");
    model["card_json"] = json!({"display_name": 5});
    let read = records(&with_data(json!({"endpoints": {"x": endpoint()}, "model_cards": {"x": model}})));
    assert_eq!(read.expect("the endpoint").len(), 1);
    let mut without = endpoint();
    without["type"] = json!("Model");
    assert!(records(&with_data(json!({"model_cards": {"x": without}}))).is_err(), "no card at all");
}

#[test]
fn a_worker_that_is_withdrawn_keeps_everything_but_its_endpoints() {
    let samples = own(&samples());
    let left = withdrawn(&samples);
    assert!(left.len() < samples.len() && left.keys().all(|key| key.bucket != Bucket::Instances));
    assert!(samples.keys().all(|key| left.contains_key(key) || key.bucket == Bucket::Instances));
}

#[test]
fn only_a_card_that_was_there_and_differs_has_changed() {
    let before = own(&samples());
    assert_eq!(without_changed_cards(&before, &before), None);
    assert_eq!(without_changed_cards(&Own::new(), &before), None);
    let change = |bucket: Bucket| {
        let mut after = before.clone();
        let (_, record) = after.iter_mut().find(|(key, _)| key.bucket == bucket).expect("a record");
        let mut value = Value::clone(record);
        value["more"] = json!(1);
        *record = Arc::new(value);
        after
    };
    let mut without = before.clone();
    without.retain(|key, _| key.bucket != Bucket::Models);
    assert_eq!(without_changed_cards(&before, &change(Bucket::Models)), Some(without));
    assert_eq!(without_changed_cards(&before, &change(Bucket::Instances)), None, "an address is taken over in place");
}
