//! The object that a process publishes: all its records in one `DynamoWorkerMetadata`.
//!
//! ```text
//! metadata.name             the pod's, or pod-container
//! metadata.ownerReferences  the pod; who reads compares its uid with that of the ready pod
//! spec.data.endpoints       ┐
//!          .model_cards     │ records by key, as in the other stores
//!          .event_channels  │
//!          .event_sources   ┘
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::identity::PodIdentity;
use crate::discovery::{Bucket, Key, Record};

/// Who writes it, for the API server (as published).
pub(super) const FIELD_MANAGER: &str = "dynamo-worker";
/// Kind of the owner.
const POD: &str = "Pod";

/// Own records as they are written.
pub(super) type Own = BTreeMap<Key, Arc<Value>>;

/// The kind of the objects.
pub(super) fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("nvidia.com", "v1alpha1", "DynamoWorkerMetadata");
    ApiResource::from_gvk_with_plural(&kind, "dynamoworkermetadatas")
}

/// The map that records of a bucket are in.
fn map_of(bucket: Bucket) -> &'static str {
    match bucket {
        Bucket::Instances => "endpoints",
        Bucket::Models => "model_cards",
        Bucket::EventChannels => "event_channels",
        Bucket::EventSources => "event_sources",
    }
}

/// The whole object, for a server-side apply.
pub(super) fn manifest(pod: &PodIdentity, records: &Own) -> Value {
    let mut data: Map<String, Value> =
        Bucket::ALL.into_iter().map(|bucket| (map_of(bucket).to_owned(), json!({}))).collect();
    for (key, record) in records {
        data[map_of(key.bucket)][&key.path] = Value::clone(record);
    }
    let (kind, name) = (resource(), pod.object_name());
    let owner = json!({
        "apiVersion": "v1",
        "kind": POD,
        "name": pod.name,
        "uid": pod.uid,
        "controller": name == pod.name,
        "blockOwnerDeletion": false,
    });
    json!({
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"data": data},
    })
}

/// What of these records stays while nobody may be sent here: all but the endpoints. A model that is known but has no
/// endpoint is not ready; one that nobody knows does not exist.
pub(super) fn withdrawn(records: &Own) -> Own {
    let stays = records.iter().filter(|(key, _)| key.bucket != Bucket::Instances);
    stays.map(|(key, record)| (key.clone(), Arc::clone(record))).collect()
}

/// The new records without cards that differ from those before; none if no card has changed.
pub(super) fn without_changed_cards(before: &Own, after: &Own) -> Option<Own> {
    let changed = |(key, record): &(&Key, &Arc<Value>)| {
        key.bucket == Bucket::Models && before.get(*key).is_some_and(|before| before != *record)
    };
    let (changed, same): (Vec<_>, Vec<_>) = after.iter().partition(changed);
    let same = same.into_iter().map(|(key, record)| (key.clone(), Arc::clone(record)));
    (!changed.is_empty()).then(|| same.collect())
}

/// The model cards of an object as they are, as far as their keys are ones that this release gives.
pub(super) fn cards(object: &DynamicObject) -> Own {
    let bucket = Bucket::Models;
    let entries = object.data.pointer(&format!("/spec/data/{}", map_of(bucket))).and_then(Value::as_object);
    let card = |(path, record): (&String, &Value)| (Key { bucket, path: path.clone() }, Arc::new(record.clone()));
    entries.into_iter().flatten().map(card).collect()
}

/// The uids of the pods that own an object.
pub(super) fn owners(object: &DynamicObject) -> Vec<String> {
    let owners = object.metadata.owner_references.iter().flatten();
    owners.filter(|owner| owner.kind == POD).map(|owner| owner.uid.clone()).collect()
}

/// The records of an object, in the order of their keys; one that is no record makes the whole object unreadable, as
/// published: what was written at once belongs together. The error says where and why.
pub(super) fn records(object: &DynamicObject) -> Result<Vec<Record>, String> {
    let data = object.data.pointer("/spec/data").filter(|data| !data.is_null()).ok_or("spec.data is missing")?;
    let data = data.as_object().ok_or("spec.data is no map")?;
    let mut records = Vec::new();
    for bucket in Bucket::ALL {
        let map = map_of(bucket);
        // The API server may store an emptied map as null.
        let Some(entries) = data.get(map).filter(|entries| !entries.is_null()) else { continue };
        let entries = entries.as_object().ok_or_else(|| format!("spec.data.{map} is no map"))?;
        for (name, value) in entries {
            let place = |reason: String| format!("spec.data.{map}[{name}]: {reason}");
            if let Some(record) = read(bucket, value).map_err(place)? {
                records.push(record);
            }
        }
    }
    Ok(records)
}

/// A model record whose card says anything at all.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum AnyModel {
    Model {
        namespace: String,
        component: String,
        endpoint: String,
        instance_id: u64,
        #[serde(rename = "card_json")]
        _card: Value,
    },
}

/// None for a card that cannot be read: that spoils its model, not what is beside it (as published).
fn read(bucket: Bucket, value: &Value) -> Result<Option<Record>, String> {
    let record = match Record::deserialize(value) {
        Ok(record) => record,
        Err(error) if bucket == Bucket::Models => {
            let AnyModel::Model { namespace, component, endpoint, instance_id, .. } =
                AnyModel::deserialize(value).map_err(|_| error.to_string())?;
            let worker = format_args!("{namespace}/{component}/{endpoint}/{instance_id:x}");
            tracing::warn!(%worker, %error, "a model card cannot be read; its model is left out");
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
    };
    let found = record.key().bucket;
    if found == bucket { Ok(Some(record)) } else { Err(format!("it belongs in {}", map_of(found))) }
}

#[cfg(test)]
mod tests;
