//! Who is there: objects of pods that are ready. Pure.
//!
//! ```text
//!   EndpointSlice ─ endpoint: ready, targetRef {name, uid} ┐                         ┌ object {name, owner's uid}
//!   Pod ─ containerStatuses: ready, names of pod, container ┴► (object's name, uid) ═╧► its records count
//! ```
//! Every condition here was tried on the release (`docs/contract.md`).

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use serde::{Deserialize, Deserializer};

use super::identity::object_of_container;

/// What services and pods of a serving graph are labelled with. The release never looks at its other label.
pub(super) const SELECTOR: &str = "nvidia.com/dynamo-discovery-enabled=true";

/// The object of this name may be believed if the pod with this uid owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vouch {
    pub(super) object: String,
    pub(super) uid: String,
}

#[derive(Deserialize)]
struct Slice {
    /// Null in a slice of a service without pods.
    #[serde(default, deserialize_with = "or_default")]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    #[serde(default, deserialize_with = "or_default")]
    conditions: Conditions,
    target_ref: Option<Target>,
}

#[derive(Default, Deserialize)]
struct Conditions {
    ready: Option<bool>,
}

#[derive(Deserialize)]
struct Target {
    name: Option<String>,
    uid: Option<String>,
}

#[derive(Deserialize)]
struct Pod {
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default, deserialize_with = "or_default")]
    container_statuses: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    ready: bool,
}

fn or_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

/// The ready pods of a slice. Whether they serve or end does not count, nor what kind of thing the target is said to be.
pub(super) fn ready_pods(slice: &DynamicObject) -> Vec<Vouch> {
    let endpoints = Slice::deserialize(&slice.data).map(|slice| slice.endpoints).unwrap_or_default();
    let vouch = |endpoint: Endpoint| {
        let target = endpoint.target_ref.filter(|_| endpoint.conditions.ready == Some(true))?;
        Some(Vouch { object: target.name?, uid: target.uid? })
    };
    endpoints.into_iter().filter_map(vouch).filter(|vouch| !vouch.object.is_empty() && !vouch.uid.is_empty()).collect()
}

/// The ready containers of a pod, be the pod as a whole ready or not; none of a pod that is being deleted.
pub(super) fn ready_containers(pod: &DynamicObject) -> Vec<Vouch> {
    let meta = &pod.metadata;
    let (Some(name), Some(uid), None) = (&meta.name, &meta.uid, &meta.deletion_timestamp) else { return Vec::new() };
    let containers = Pod::deserialize(&pod.data).map(|pod| pod.status.container_statuses).unwrap_or_default();
    let ready = containers.into_iter().filter(|container| container.ready);
    ready.map(|container| Vouch { object: object_of_container(name, &container.name), uid: uid.clone() }).collect()
}

/// Objects that may be believed, with the owner that they must have.
#[derive(Debug, Default)]
pub(super) struct Ready<'a> {
    /// No uid where two pods of one name are said to be ready: nobody knows whose the object is.
    owners: BTreeMap<&'a str, Option<&'a str>>,
}

impl<'a> FromIterator<&'a Vouch> for Ready<'a> {
    fn from_iter<I: IntoIterator<Item = &'a Vouch>>(vouches: I) -> Self {
        let mut owners = BTreeMap::new();
        for Vouch { object, uid } in vouches {
            let owner = owners.entry(object.as_str()).or_insert(Some(uid.as_str()));
            if *owner != Some(uid) {
                *owner = None;
            }
        }
        Self { owners }
    }
}

impl Ready<'_> {
    /// The object is that of a pod that is ready.
    pub(super) fn covers(&self, object: &str, owners: &[String]) -> bool {
        self.owners.get(object).copied().flatten().is_some_and(|uid| owners.iter().any(|owner| owner == uid))
    }
}

#[cfg(test)]
mod tests;
