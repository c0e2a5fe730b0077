//! The fourth step: writes what differs, and takes away what a graph no longer asks for.
//!
//! Everything goes by server-side apply with one field manager, in the order of [`Children`]: what pods need comes before them.
//! Whatever is cut off between two writes is done by the next reconciliation, since each decision is taken from what is there.

use std::collections::BTreeSet;

use dynosim_api::v1beta1::DynamoGraphDeploymentScalingAdapter;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use serde::Serialize;
use serde_json::{Value, json};

use super::api::{self, code};
use super::kept::Key;
use super::reconcile::{Context, Fault};
use super::world::Child;
use crate::build::{Children, Retiring};
use crate::drift::{MANAGER, is_as_wanted};
use crate::kinds::{OWNED, Orphans};
use crate::names;

/// What was done for a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Scaling adapters that were made.
    pub made_adapters: Vec<String>,
    /// Scaling adapters that were removed.
    pub removed_adapters: Vec<String>,
}

/// A graph whose children are written.
pub(super) struct Writer<'a> {
    pub(super) context: &'a Context,
    pub(super) graph: &'a Key,
    pub(super) uid: &'a str,
    pub(super) applied: Applied,
}

/// An object that is wanted.
struct Wanted {
    kind: usize,
    key: Key,
    value: Value,
}

impl Writer<'_> {
    /// Writes all children.
    pub(super) async fn apply(mut self, children: Children) -> Result<Applied, Fault> {
        let (wanted, retiring) = in_order(self.graph, children);
        for wanted in &wanted {
            self.one(wanted).await?;
        }
        for retiring in &retiring {
            self.retire(retiring).await?;
        }
        let mut keep: BTreeSet<_> = wanted.into_iter().map(|wanted| (wanted.kind, wanted.key)).collect();
        let staying = retiring.into_iter().filter(|retiring| !is_over(retiring));
        keep.extend(staying.map(|retiring| (api::deployments(), self.key(&retiring.name))));
        self.prune(&keep).await?;
        Ok(self.applied)
    }

    fn key(&self, name: &str) -> Key {
        Key::new(&self.graph.namespace, name)
    }

    fn api(&self, kind: usize) -> Api<DynamicObject> {
        Api::namespaced_with(self.context.client.clone(), &self.graph.namespace, &OWNED[kind].resource())
    }

    /// Nothing is made for a graph that is to go.
    fn check(&self) -> Result<(), Fault> {
        match self.context.world.graph(self.graph) {
            Some(graph) if graph.uid == self.uid && !graph.is_deleted => Ok(()),
            _ => Err(Fault::Gone),
        }
    }

    async fn one(&mut self, wanted: &Wanted) -> Result<(), Fault> {
        let Wanted { kind, key, value } = wanted;
        let Some(child) = self.context.world.child(*kind, key) else { return self.make(wanted).await };
        if !self.is_own(&child, wanted) {
            return Err(taken(wanted));
        }
        // It will come back once it is gone.
        if child.is_deleted {
            return Ok(());
        }
        let live: Value = serde_json::from_str(&child.text).unwrap_or_default();
        let value = if *kind == api::adapters() { &without_replicas(value) } else { value };
        if is_as_wanted(&live, value) {
            return Ok(());
        }
        self.write(*kind, key, value).await
    }

    /// Accounts for all graphs of a namespace have no graph that decides about them.
    fn is_own(&self, child: &Child, wanted: &Wanted) -> bool {
        match &child.controller {
            Some(uid) => uid == self.uid,
            None => is_shared(&wanted.key) || OWNED[wanted.kind].orphans == Orphans::Keep,
        }
    }

    /// Makes an object that is not known; what others made under its name is not touched.
    async fn make(&mut self, wanted: &Wanted) -> Result<(), Fault> {
        let Wanted { kind, key, value } = wanted;
        self.check()?;
        if let Some(there) = self.api(*kind).get_opt(&key.name).await? {
            let is_kept = OWNED[*kind].orphans == Orphans::Keep;
            let controller = crate::dereference::controller(&there.metadata);
            let is_own = match controller {
                Some(owner) => owner.uid == self.uid,
                None => is_shared(key) || is_kept,
            };
            if !is_own {
                return Err(taken(wanted));
            }
            if is_kept && controller.is_none() {
                // A claim that somebody else made holds somebody's data.
                return Ok(());
            }
            // The watch is late: what was built did not know of it.
            self.context.world.put_child(*kind, there);
            return Err(Fault::Late);
        }
        if *kind != api::adapters() {
            return self.write(*kind, key, value).await;
        }
        // Its replicas are for whoever scales: a plain creation leaves them to nobody.
        let object = serde_json::from_value(value.clone()).map_err(|error| Fault::Form(error.to_string()))?;
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let made = self.api(*kind).create(&params, &object).await;
        if made.as_ref().is_err_and(|error| code(error) == Some(409)) {
            return Err(Fault::Late);
        }
        self.context.world.put_child(*kind, made?);
        self.applied.made_adapters.push(key.name.clone());
        Ok(())
    }

    async fn write(&mut self, kind: usize, key: &Key, value: &Value) -> Result<(), Fault> {
        self.check()?;
        let params = PatchParams::apply(MANAGER).force();
        let written = self.api(kind).patch(&key.name, &params, &Patch::Apply(value)).await.map_err(|error| {
            Fault::Refused { what: format!("{} {}", OWNED[kind].kind, key.name), error: Box::new(error) }
        })?;
        tracing::debug!(graph = %self.graph, kind = OWNED[kind].kind, name = key.name, "written");
        self.context.world.put_child(kind, written);
        Ok(())
    }

    /// Lowers the replicas of an earlier generation. Its template is not known any more, so nothing else is written.
    async fn retire(&mut self, retiring: &Retiring) -> Result<(), Fault> {
        let (kind, key) = (api::deployments(), self.key(&retiring.name));
        let Some(child) = self.context.world.child(kind, &key) else { return Ok(()) };
        let live: Value = serde_json::from_str(&child.text).unwrap_or_default();
        if child.is_deleted || live["spec"]["replicas"] == retiring.replicas {
            return Ok(());
        }
        self.check()?;
        let patch = json!({"metadata": {"uid": child.uid}, "spec": {"replicas": retiring.replicas}});
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let written = self.api(kind).patch(&key.name, &params, &Patch::Merge(patch)).await?;
        self.context.world.put_child(kind, written);
        Ok(())
    }

    async fn prune(&mut self, keep: &BTreeSet<(usize, Key)>) -> Result<(), Fault> {
        let mut children = self.context.world.children(self.uid);
        // What runs goes first.
        children.sort_by_key(|(kind, _, _)| *kind);
        for (kind, key, child) in children {
            if keep.contains(&(kind, key.clone())) || child.is_deleted || OWNED[kind].orphans == Orphans::Keep {
                continue;
            }
            if is_shared(&key) && child.owners.len() > 1 {
                self.leave(kind, &key, &child).await?;
            } else {
                self.delete(kind, &key, &child).await?;
            }
        }
        Ok(())
    }

    async fn delete(&mut self, kind: usize, key: &Key, child: &Child) -> Result<(), Fault> {
        let this = Preconditions { uid: Some(child.uid.clone()), resource_version: None };
        let params = DeleteParams::background().preconditions(this);
        match self.api(kind).delete(&key.name, &params).await {
            Ok(_) => {}
            // It is gone, or another one has its name.
            Err(error) if matches!(code(&error), Some(404 | 409)) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        tracing::debug!(graph = %self.graph, kind = OWNED[kind].kind, name = key.name, "removed");
        if kind == api::adapters() {
            self.applied.removed_adapters.push(key.name.clone());
        }
        Ok(())
    }

    /// Gives up the graph's part of an object that other graphs need.
    async fn leave(&mut self, kind: usize, key: &Key, child: &Child) -> Result<(), Fault> {
        let live: Value = serde_json::from_str(&child.text).unwrap_or_default();
        let owners = live["metadata"]["ownerReferences"].as_array();
        let Some(index) = owners.and_then(|owners| owners.iter().position(|owner| owner["uid"] == self.uid)) else {
            return Ok(());
        };
        let place = format!("/metadata/ownerReferences/{index}");
        let steps = json!([
            {"op": "test", "path": format!("{place}/uid"), "value": self.uid},
            {"op": "remove", "path": place},
        ]);
        let patch = serde_json::from_value(steps).map_err(|error| Fault::Form(error.to_string()))?;
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let written = self.api(kind).patch(&key.name, &params, &Patch::<()>::Json(patch)).await?;
        self.context.world.put_child(kind, written);
        Ok(())
    }
}

/// All pods of an earlier generation are gone.
fn is_over(retiring: &Retiring) -> bool {
    retiring.replicas == 0 && retiring.is_drained
}

/// Accounts of planners, their roles and bindings.
fn is_shared(key: &Key) -> bool {
    let account = names::PLANNER_ACCOUNT;
    key.name == account || key.name == names::role(account) || key.name == names::binding(account)
}

fn taken(wanted: &Wanted) -> Fault {
    Fault::Taken(format!("{} {}", OWNED[wanted.kind].kind, wanted.key.name))
}

fn without_replicas(adapter: &Value) -> Value {
    let mut adapter = adapter.clone();
    if let Some(spec) = adapter["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    adapter
}

/// All objects in the order in which they are written.
fn in_order(graph: &Key, children: Children) -> (Vec<Wanted>, Vec<Retiring>) {
    // Without `..`, so that no kind is forgotten.
    let Children {
        accounts,
        roles,
        bindings,
        claims,
        adapters,
        services,
        deployments,
        retiring,
        ingresses,
        pod_monitors,
    } = children;
    let mut all = Vec::new();
    add(&mut all, graph, "ServiceAccount", &accounts);
    add(&mut all, graph, "Role", &roles);
    add(&mut all, graph, "RoleBinding", &bindings);
    add(&mut all, graph, "PersistentVolumeClaim", &claims);
    add::<DynamoGraphDeploymentScalingAdapter>(&mut all, graph, dynosim_api::ADAPTER_KIND, &adapters);
    add(&mut all, graph, "Service", &services);
    add(&mut all, graph, "Deployment", &deployments);
    add(&mut all, graph, "Ingress", &ingresses);
    add(&mut all, graph, "PodMonitor", &pod_monitors);
    (all, retiring)
}

fn add<T: Serialize>(all: &mut Vec<Wanted>, graph: &Key, kind: &str, objects: &[T]) {
    for object in objects {
        // Built objects are plain data.
        let mut value = serde_json::to_value(object).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        all.push(Wanted { kind: api::kind(kind), key: Key::new(&graph.namespace, name), value });
    }
}
