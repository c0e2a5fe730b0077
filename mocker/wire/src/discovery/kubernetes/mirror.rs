//! The task of one handle that reads: who is ready, what they have published, and so who is there.
//!
//! While the API server cannot be reached, the last view stays: workers that serve go on serving.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use kube::api::DynamicObject;
use kube::runtime::watcher::{Config, Event};

use super::cluster::{Cluster, Fault};
use super::follow::{Follower, Listing};
use super::identity::{PodIdentity, PodUnit};
use super::join::{Ready, SELECTOR, Vouch, ready_containers, ready_pods};
use super::object;
use crate::discovery::view::Views;
use crate::discovery::{Bucket, Key, Record};

/// Events that are taken together before it is told what came of them.
const MAX_EVENTS_AT_ONCE: usize = 256;

/// What counts of an object.
#[derive(Debug)]
struct Published {
    /// Of this object; another one by the same name has nothing to do with it.
    uid: Option<String>,
    owners: Vec<String>,
    records: Vec<(Key, Arc<Record>)>,
    /// The version that cannot be read and was told of.
    refused: Option<String>,
}

impl Published {
    /// Reads a version of an object; one that cannot be read changes nothing.
    fn read(object: &DynamicObject, before: Option<&Self>) -> Self {
        let meta = &object.metadata;
        match object::records(object) {
            Ok(records) => Self {
                uid: meta.uid.clone(),
                owners: object::owners(object),
                records: records.into_iter().map(|record| (record.key(), Arc::new(record))).collect(),
                refused: None,
            },
            Err(reason) => {
                let good = before.filter(|before| before.uid == meta.uid);
                let version = meta.resource_version.clone();
                if good.is_none_or(|good| good.refused != version) {
                    let name = meta.name.as_deref().unwrap_or_default();
                    tracing::warn!(
                        object = name,
                        %reason,
                        "a DynamoWorkerMetadata cannot be read; an earlier version of it stays in force if there is one"
                    );
                }
                Self {
                    uid: meta.uid.clone(),
                    owners: good.map(|good| good.owners.clone()).unwrap_or_default(),
                    records: good.map(|good| good.records.clone()).unwrap_or_default(),
                    refused: version,
                }
            }
        }
    }
}

pub(super) struct Mirror {
    views: Arc<Views>,
    unit: PodUnit,
    vouching: Follower,
    publishing: Follower,
    vouches: Listing<Vec<Vouch>>,
    objects: Listing<Published>,
    told: BTreeMap<Key, Arc<Record>>,
}

impl Mirror {
    /// Reads the namespace of `pod` and no other.
    pub(super) fn new(cluster: &Cluster, pod: &PodIdentity, views: Arc<Views>) -> Self {
        let vouching = match pod.unit {
            PodUnit::Pod => cluster.slices(&pod.namespace),
            PodUnit::Container(_) => cluster.pods(&pod.namespace),
        };
        Self {
            views,
            unit: pod.unit.clone(),
            vouching: Follower::new(cluster, vouching, Config::default().labels(SELECTOR)),
            publishing: Follower::new(cluster, cluster.objects(&pod.namespace), Config::default()),
            vouches: Listing::default(),
            objects: Listing::default(),
            told: BTreeMap::new(),
        }
    }

    /// Runs until dropped.
    pub(super) async fn run(mut self) {
        loop {
            let mut changed = tokio::select! {
                event = self.vouching.next() => vouched(&mut self.vouches, &self.unit, event),
                event = self.publishing.next() => published(&mut self.objects, event),
            };
            for _ in 0..MAX_EVENTS_AT_ONCE {
                if let Some(event) = self.vouching.next().now_or_never() {
                    changed |= vouched(&mut self.vouches, &self.unit, event);
                } else if let Some(event) = self.publishing.next().now_or_never() {
                    changed |= published(&mut self.objects, event);
                } else {
                    break;
                }
            }
            if changed && self.vouches.is_complete() && self.objects.is_complete() {
                self.tell();
            }
        }
    }

    /// Puts into the views who is there, and takes out who is there no more.
    fn tell(&mut self) {
        let ready: Ready<'_> = self.vouches.known().values().flatten().collect();
        let there = self.objects.known().iter().filter(|(name, object)| ready.covers(name, &object.owners));
        let mut now = BTreeMap::new();
        for (key, record) in there.flat_map(|(_, object)| &object.records) {
            // Of two objects with equal keys, the first by name counts.
            now.entry(key.clone()).or_insert_with(|| Arc::clone(record));
        }
        for key in self.told.keys().filter(|key| !now.contains_key(*key)) {
            self.views.remove(key);
        }
        for (key, record) in &now {
            if !self.told.get(key).is_some_and(|told| Arc::ptr_eq(told, record)) {
                self.views.put(key, Arc::clone(record));
            }
        }
        self.told = now;
        for bucket in Bucket::ALL {
            self.views.set_loaded(bucket);
        }
    }
}

/// Failures change nothing: they are told of and tried again where they occur.
fn vouched(vouches: &mut Listing<Vec<Vouch>>, unit: &PodUnit, event: Result<Event<DynamicObject>, Fault>) -> bool {
    let read = match unit {
        PodUnit::Pod => ready_pods,
        PodUnit::Container(_) => ready_containers,
    };
    event.is_ok_and(|event| vouches.take(event, |object, _| read(object)))
}

/// As above.
fn published(objects: &mut Listing<Published>, event: Result<Event<DynamicObject>, Fault>) -> bool {
    event.is_ok_and(|event| objects.take(event, Published::read))
}

#[cfg(test)]
mod tests;
