//! What discovery says: instances, cards, and the workers that they make.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dynosim_wire::card::{ModelCard, WorkerType};
use dynosim_wire::discovery::{Bucket, Change, EndpointRecord, Key, Record};

use super::group::Pools;
use super::identity::identity;
use super::worker::{Worker, needs_met};

/// A card with what identifies it.
#[derive(Debug)]
pub(crate) struct Card {
    pub(crate) namespace: String,
    pub(crate) identity: String,
    pub(crate) said: ModelCard,
    /// Instance that it belongs to, as in keys: `namespace/component/endpoint/instance id in hex`.
    instance: String,
}

/// Name and namespace of a group.
pub(crate) type GroupKey = (Arc<str>, String);

/// What a group consists of.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    /// The card that all agree on.
    pub(crate) card: &'a Card,
    /// Workers that are there, in order of their keys.
    pub(crate) workers: Vec<Arc<Worker>>,
}

/// All that discovery says. Order is that of keys, so equal contents give equal groups.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) instances: BTreeMap<String, EndpointRecord>,
    cards: BTreeMap<String, Card>,
    /// Made when both records are there; kept while neither changes.
    workers: BTreeMap<String, Arc<Worker>>,
    /// Cards that were warned of.
    refused: BTreeSet<String>,
}

impl Books {
    /// Takes in a change; false if it changes nothing here.
    pub(crate) fn apply(&mut self, change: Change) -> bool {
        match change {
            Change::Put(key, record) => self.put(key, *record),
            Change::Removed(Key { bucket: Bucket::Instances, path }) => {
                self.workers.retain(|card, _| instance_of(card) != path);
                self.instances.remove(&path).is_some()
            }
            Change::Removed(Key { bucket: Bucket::Models, path }) => {
                self.workers.remove(&path);
                self.refused.remove(&path);
                self.cards.remove(&path).is_some()
            }
            Change::Removed(_) | Change::Synced => false,
        }
    }

    fn put(&mut self, key: Key, record: Record) -> bool {
        match record {
            Record::Endpoint(record) => {
                // Told of anew, a worker starts afresh: its cool-down ends too.
                self.workers.retain(|card, _| instance_of(card) != key.path);
                self.instances.insert(key.path, record);
            }
            Record::Model(record) => {
                self.workers.remove(&key.path);
                let (namespace, card) = (record.namespace, record.card_json);
                let instance = instance_of(&key.path).to_owned();
                self.cards.insert(key.path, Card { namespace, identity: identity(&card), said: card, instance });
            }
            Record::EventChannel(_) | Record::EventSource(_) => return false,
        }
        true
    }

    /// Makes the workers whose records have come.
    pub(crate) fn settle(&mut self) {
        for (path, card) in &self.cards {
            if let (false, Some(endpoint)) = (self.workers.contains_key(path), self.instances.get(&card.instance)) {
                self.workers.insert(path.clone(), Arc::new(Worker::new(endpoint, &card.said)));
            }
        }
    }

    /// Groups with their members. Cards of a group must agree: the identity in `current` is kept while a worker has it,
    /// else the first card's counts.
    pub(crate) fn groups(&mut self, current: impl Fn(&GroupKey) -> Option<String>) -> BTreeMap<GroupKey, Members<'_>> {
        let mut by_group: BTreeMap<GroupKey, Vec<(&String, &Card)>> = BTreeMap::new();
        for (path, card) in self.cards.iter().filter(|(path, _)| self.workers.contains_key(*path)) {
            let key = (Arc::from(card.said.display_name.as_str()), card.namespace.clone());
            by_group.entry(key).or_default().push((path, card));
        }
        let mut groups = BTreeMap::new();
        for (key, cards) in by_group {
            let kept = current(&key).and_then(|sum| cards.iter().find(|(_, card)| card.identity == sum));
            let Some((_, agreed)) = kept.or_else(|| cards.first()).copied() else { continue };
            let (same, other): (Vec<_>, Vec<_>) = cards.iter().partition(|(_, card)| card.identity == agreed.identity);
            for (path, _) in other {
                if self.refused.insert(path.clone()) {
                    tracing::warn!(model = %key.0, worker = %path, "its model card differs from that of the model's other workers; it gets no requests");
                }
            }
            let workers = same.iter().filter_map(|(path, _)| self.workers.get(*path)).cloned().collect();
            groups.insert(key, Members { card: agreed, workers });
        }
        groups
    }

    /// The identities of all cards that are there.
    pub(crate) fn has_identity(&self, identity: &str) -> bool {
        self.cards.values().any(|card| card.identity == identity)
    }
}

impl Members<'_> {
    /// Sorts the workers into pools; a decode worker takes part once its needs are met.
    pub(crate) fn pools(&self, before: &Pools) -> Pools {
        let there: Vec<WorkerType> = self.workers.iter().map(|worker| worker.kind).collect();
        Pools::sort(&self.workers, |worker| needs_met(&worker.needs, &there), before)
    }
}

/// `namespace/component/endpoint/instance` of a card's key, which may have a suffix.
fn instance_of(path: &str) -> &str {
    path.match_indices('/').nth(3).map_or(path, |(end, _)| &path[..end])
}
