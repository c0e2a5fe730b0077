//! All that is known of the cluster: graphs, their children, pods in trouble, secrets for registries.
//!
//! Objects are kept as text: small, and read only when their graph is reconciled. Pods are kept only for what keeps them
//! from running, secrets only for the registries that they are for.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dynosim_api::GRAPH_KIND;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;

use super::kept::{Kept, Key, Put};
use crate::dereference::{PullSecret, pull_secret};
use crate::drift::MANAGER;
use crate::keys::label;
use crate::kinds::OWNED;
use crate::trouble::{Trouble, of_pod};

/// A graph.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Its identity.
    pub uid: String,
    /// It is to go.
    pub is_deleted: bool,
    /// All of it in JSON.
    pub text: Arc<str>,
}

/// An object that a graph owns.
#[derive(Clone, Debug)]
pub struct Child {
    /// Its identity.
    pub uid: String,
    /// Identity of the graph that decides about it, if it is one that does.
    pub controller: Option<String>,
    /// Graphs that own it, by identity and name.
    pub owners: Vec<(String, String)>,
    /// It is to go.
    pub is_deleted: bool,
    /// All of it in JSON; of `managedFields` what the operator applied.
    pub text: Arc<str>,
}

/// What a watch is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Watched {
    /// Graphs.
    Graphs,
    /// One of [`OWNED`].
    Children(usize),
    /// Pods of graphs.
    Pods,
    /// Secrets for registries.
    Secrets,
}

/// A pod of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PodSeen {
    graph: String,
    trouble: Option<Trouble>,
}

#[derive(Debug, Default)]
struct Known {
    graphs: Kept<Graph>,
    children: [Kept<Child>; OWNED.len()],
    pods: Kept<PodSeen>,
    secrets: Kept<PullSecret>,
    /// Children by the identity of the graphs that own them.
    owned: HashMap<String, BTreeSet<(usize, Key)>>,
}

/// All that is known of the cluster.
#[derive(Debug, Default)]
pub struct World(Mutex<Known>);

impl World {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing in here panics between two changes that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an event of a watch; the graphs that it may matter for.
    pub fn take(&self, watched: Watched, event: Event<DynamicObject>) -> BTreeSet<Key> {
        let mut known = self.known();
        let Known { graphs, children, pods, secrets, owned } = &mut *known;
        let mut touched = BTreeSet::new();
        match watched {
            Watched::Graphs => take(graphs, event, read_graph, |key, _, _| {
                touched.insert(key.clone());
            }),
            Watched::Children(kind) => take(&mut children[kind], event, read_child, |key, before, now| {
                index(owned, kind, key, before, now);
                touch_owners(&mut touched, key, before, now);
            }),
            Watched::Pods => take(pods, event, read_pod, |key, before, now| {
                if before.and_then(|pod| pod.trouble.as_ref()) != now.and_then(|pod| pod.trouble.as_ref()) {
                    let graph = now.or(before).map(|pod| Key::new(&key.namespace, &pod.graph));
                    touched.extend(graph);
                }
            }),
            Watched::Secrets => take(secrets, event, read_secret, |key, before, now| {
                if before != now {
                    touched.extend(graphs.of_namespace(&key.namespace).map(|(key, _)| key.clone()));
                }
            }),
        }
        touched
    }

    /// Takes in the answer to a write of a child.
    pub fn put_child(&self, kind: usize, object: DynamicObject) {
        let mut known = self.known();
        let (metadata, child) = (object.metadata.clone(), read_child(object));
        let key = Key::of(&metadata);
        if let Put::Taken(before) = known.children[kind].put(&metadata, child.clone()) {
            index(&mut known.owned, kind, &key, before.as_ref(), Some(&child));
        }
    }

    /// Takes in the answer to a write of a graph.
    pub fn put_graph(&self, object: DynamicObject) {
        let metadata = object.metadata.clone();
        self.known().graphs.put(&metadata, read_graph(object));
    }

    /// A list of these was there at least once.
    pub fn is_complete(&self, watched: Watched) -> bool {
        let known = self.known();
        match watched {
            Watched::Graphs => known.graphs.is_complete(),
            Watched::Children(kind) => known.children[kind].is_complete(),
            Watched::Pods => known.pods.is_complete(),
            Watched::Secrets => known.secrets.is_complete(),
        }
    }

    /// A graph.
    pub fn graph(&self, key: &Key) -> Option<Graph> {
        self.known().graphs.get(key).cloned()
    }

    /// Names of all graphs of a namespace.
    pub fn graphs_of(&self, namespace: &str) -> Vec<Key> {
        self.known().graphs.of_namespace(namespace).map(|(key, _)| key.clone()).collect()
    }

    /// Names of all graphs.
    pub fn graphs(&self) -> Vec<Key> {
        self.known().graphs.iter().map(|(key, _)| key.clone()).collect()
    }

    /// A child by its name.
    pub fn child(&self, kind: usize, key: &Key) -> Option<Child> {
        self.known().children[kind].get(key).cloned()
    }

    /// All children of a graph by the graph's identity.
    pub fn children(&self, uid: &str) -> Vec<(usize, Key, Child)> {
        let known = self.known();
        let of = |(kind, key): &(usize, Key)| Some((*kind, key.clone(), known.children[*kind].get(key)?.clone()));
        known.owned.get(uid).into_iter().flatten().filter_map(of).collect()
    }

    /// A graph of this identity is known.
    pub fn has_graph(&self, key: &Key, uid: &str) -> bool {
        self.known().graphs.get(key).is_some_and(|graph| graph.uid == uid)
    }

    /// What keeps the pods of a graph from running.
    pub fn troubles(&self, graph: &Key) -> Vec<Trouble> {
        let known = self.known();
        let pods = known.pods.of_namespace(&graph.namespace).filter(|(_, pod)| pod.graph == graph.name);
        pods.filter_map(|(_, pod)| pod.trouble.clone()).collect()
    }

    /// Secrets for registries in a namespace.
    pub fn pull_secrets(&self, namespace: &str) -> Vec<PullSecret> {
        self.known().secrets.of_namespace(namespace).map(|(_, secret)| secret.clone()).collect()
    }
}

/// Takes in an event and tells of each change: what was known before and what is known now.
fn take<T: Clone>(
    kept: &mut Kept<T>,
    event: Event<DynamicObject>,
    read: impl Fn(DynamicObject) -> T,
    mut changed: impl FnMut(&Key, Option<&T>, Option<&T>),
) {
    match event {
        Event::Init => kept.begin(),
        Event::InitDone => {
            for (key, before) in kept.end() {
                changed(&key, Some(&before), None);
            }
        }
        Event::InitApply(object) | Event::Apply(object) => {
            let metadata = object.metadata.clone();
            let now = read(object);
            match kept.put(&metadata, now.clone()) {
                Put::Taken(before) => changed(&Key::of(&metadata), before.as_ref(), Some(&now)),
                // It was the answer to a write: what is to follow from it may not have been looked at yet.
                Put::Known => changed(&Key::of(&metadata), Some(&now), Some(&now)),
                Put::Late => {}
            }
        }
        Event::Delete(object) => {
            if let Some(before) = kept.remove(&object.metadata) {
                changed(&Key::of(&object.metadata), Some(&before), None);
            }
        }
    }
}

fn index(
    owned: &mut HashMap<String, BTreeSet<(usize, Key)>>,
    kind: usize,
    key: &Key,
    before: Option<&Child>,
    now: Option<&Child>,
) {
    let entry = (kind, key.clone());
    for (uid, _) in before.iter().flat_map(|child| &child.owners) {
        if let Some(children) = owned.get_mut(uid) {
            children.remove(&entry);
            if children.is_empty() {
                owned.remove(uid);
            }
        }
    }
    for (uid, _) in now.iter().flat_map(|child| &child.owners) {
        owned.entry(uid.clone()).or_default().insert(entry.clone());
    }
}

fn touch_owners(touched: &mut BTreeSet<Key>, key: &Key, before: Option<&Child>, now: Option<&Child>) {
    let owners = [before, now].into_iter().flatten().flat_map(|child| &child.owners);
    touched.extend(owners.map(|(_, name)| Key::new(&key.namespace, name)));
}

fn read_graph(mut object: DynamicObject) -> Graph {
    object.metadata.managed_fields = None;
    let ObjectMeta { uid, deletion_timestamp, .. } = object.metadata.clone();
    Graph { uid: uid.unwrap_or_default(), is_deleted: deletion_timestamp.is_some(), text: text(&object) }
}

fn read_child(mut object: DynamicObject) -> Child {
    let own = |entry: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(MANAGER)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.is_none()
    };
    if let Some(entries) = &mut object.metadata.managed_fields {
        entries.retain(own);
    }
    let owners = object.metadata.owner_references.iter().flatten().filter(|owner| owner.kind == GRAPH_KIND);
    Child {
        uid: object.metadata.uid.clone().unwrap_or_default(),
        controller: crate::dereference::controller(&object.metadata).map(|owner| owner.uid.clone()),
        owners: owners.map(|owner| (owner.uid.clone(), owner.name.clone())).collect(),
        is_deleted: object.metadata.deletion_timestamp.is_some(),
        text: text(&object),
    }
}

fn read_pod(object: DynamicObject) -> PodSeen {
    let graph = object.metadata.labels.as_ref().and_then(|labels| labels.get(label::GRAPH)).cloned();
    PodSeen { graph: graph.unwrap_or_default(), trouble: object.try_parse().ok().as_ref().and_then(of_pod) }
}

fn read_secret(object: DynamicObject) -> PullSecret {
    let name = object.metadata.name.clone().unwrap_or_default();
    let read = object.try_parse().ok().as_ref().and_then(pull_secret);
    read.unwrap_or(PullSecret { name, registries: Vec::new() })
}

/// An object that came as JSON can always be written as JSON.
fn text(object: &DynamicObject) -> Arc<str> {
    serde_json::to_string(object).unwrap_or_default().into()
}
