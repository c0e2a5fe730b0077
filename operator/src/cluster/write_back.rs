//! What the operator writes to graphs and their scaling adapters, each only where it differs.

use std::fmt::Debug;

use dynosim_api::v1beta1::{
    DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter, DynamoGraphDeploymentSpec, DynamoGraphDeploymentStatus,
    ScalingAdapterStatus,
};
use dynosim_api::{ADAPTER_KIND, GRAPH_KIND, GROUP};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use super::api;
use super::kept::Key;
use super::reconcile::{Context, Fault};
use crate::build::replicas;
use crate::drift::MANAGER;
use crate::keys::{annotation, label};
use crate::kinds::OWNED;
use crate::status::{self, Facts};

/// Writes the status of a graph, and tells of what changed.
pub(super) async fn status(
    context: &Context,
    key: &Key,
    graph: &DynamoGraphDeployment,
    status: DynamoGraphDeploymentStatus,
) -> Result<(), Fault> {
    context.metrics.is_ready(key, status::is_ready(Some(&status)));
    if same(graph.status.as_ref(), &status) {
        return Ok(());
    }
    let api = of(context, key, &api::graphs());
    let written = apply_status(&api, GRAPH_KIND, key, &status).await?;
    context.world.put_graph(written);
    context.events.status(graph, &status);
    Ok(())
}

/// Tells of a graph that cannot be read at all.
pub(super) async fn unreadable(context: &Context, key: &Key, text: &str, reason: &str) -> Result<(), Fault> {
    let form = |error: serde_json::Error| Fault::Form(error.to_string());
    let metadata = serde_json::from_str::<PartialObjectMeta<DynamoGraphDeployment>>(text).map_err(form)?.metadata;
    let object: Value = serde_json::from_str(text).map_err(form)?;
    let mut graph = DynamoGraphDeployment::new(&key.name, DynamoGraphDeploymentSpec::default());
    graph.metadata = metadata;
    graph.status = serde_json::from_value(object["status"].clone()).ok();
    let failed = status::of_failed(&graph, "ValidationFailed", reason, jiff::Timestamp::now());
    self::status(context, key, &graph, failed).await
}

/// Writes what scaling adapters say of their components.
pub(super) async fn adapters(
    context: &Context,
    key: &Key,
    facts: &Facts<'_>,
    status: &DynamoGraphDeploymentStatus,
) -> Result<(), Fault> {
    for (index, component) in facts.valid.components.iter().enumerate().filter(|(_, component)| component.has_adapter) {
        let name = Key::new(&key.namespace, crate::names::child(&key.name, &component.lower));
        let Some(child) = context.world.child(api::adapters(), &name) else { continue };
        let Ok(adapter) = serde_json::from_str::<DynamoGraphDeploymentScalingAdapter>(&child.text) else { continue };
        let before = adapter.status.clone().unwrap_or_default();
        let is_scaled = facts.graph.spec.components[index].replicas != Some(adapter.spec.replicas);
        let pods = status.components.get(&component.name).map(|component| component.replicas);
        let now = ScalingAdapterStatus {
            replicas: Some(pods.unwrap_or_default()),
            selector: Some(selector(key, &component.name)),
            last_scale_time: if is_scaled { Some(Time(facts.observed.now)) } else { before.last_scale_time.clone() },
            other: before.other.clone(),
        };
        if same(adapter.status.as_ref(), &now) {
            continue;
        }
        let api = of(context, key, &OWNED[api::adapters()].resource());
        let written = apply_status(&api, ADAPTER_KIND, &name, &now).await?;
        context.world.put_child(api::adapters(), written);
        if is_scaled {
            let from = facts.graph.spec.components[index].replicas.unwrap_or_default();
            context.events.scaled(&adapter, from);
        }
    }
    Ok(())
}

/// Selects the pods of a component, for autoscalers.
fn selector(graph: &Key, component: &str) -> String {
    format!("{}={},{}={component}", label::GRAPH, graph.name, label::COMPONENT)
}

/// Writes replicas into the graph: those that an adapter decides about, and those that the manifest leaves open. Planners
/// compare what they want with the graph.
pub(super) async fn replicas_of_graph(context: &Context, key: &Key, facts: &Facts<'_>) -> Result<(), Fault> {
    let mut patch = Vec::new();
    for (index, component) in facts.valid.components.iter().enumerate() {
        let given = facts.graph.spec.components[index].replicas;
        let decided = component.has_adapter && facts.observed.adapters.contains_key(&component.lower);
        let wanted = replicas(component, facts.observed).cast_signed();
        if (decided || given.is_none()) && given != Some(wanted) {
            let place = format!("/spec/components/{index}");
            patch.push(json!({"op": "test", "path": format!("{place}/name"), "value": component.name}));
            patch.push(json!({"op": "add", "path": format!("{place}/replicas"), "value": wanted}));
        }
    }
    if patch.is_empty() {
        return Ok(());
    }
    let patch = serde_json::from_value(patch.into()).map_err(|error| Fault::Form(error.to_string()))?;
    change(context, key, &Patch::<()>::Json(patch)).await
}

/// Names the generation of workers that serves, for planners that read it from the graph. It changes once nothing of another
/// generation is left.
pub(super) async fn worker_hash(context: &Context, key: &Key, facts: &Facts<'_>) -> Result<(), Fault> {
    let is_over = facts.built.rolling.is_none();
    let wanted = facts.built.hash.as_ref().filter(|_| facts.valid.has_suffix);
    let annotations = facts.graph.metadata.annotations.as_ref();
    let known = |name: &str| annotations.and_then(|annotations| annotations.get(name));
    let differs = annotation::HASHES.iter().any(|name| known(name) != wanted);
    if !is_over || !differs {
        return Ok(());
    }
    let annotations: Value = annotation::HASHES.iter().map(|name| ((*name).to_owned(), json!(wanted))).collect();
    change(context, key, &Patch::Merge(json!({"metadata": {"annotations": annotations}}))).await
}

async fn change<P: Serialize + Debug>(context: &Context, key: &Key, patch: &Patch<P>) -> Result<(), Fault> {
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    match of(context, key, &api::graphs()).patch(&key.name, &params, patch).await {
        Ok(written) => {
            context.world.put_graph(written);
            Ok(())
        }
        // The components have changed meanwhile.
        Err(error) if api::code(&error) == Some(422) => Err(Fault::Late),
        Err(error) if api::code(&error) == Some(404) => Err(Fault::Gone),
        Err(error) => Err(error.into()),
    }
}

fn of(context: &Context, key: &Key, resource: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(context.client.clone(), &key.namespace, resource)
}

async fn apply_status<S: Serialize>(
    api: &Api<DynamicObject>,
    kind: &str,
    key: &Key,
    status: &S,
) -> Result<DynamicObject, Fault> {
    let object = json!({
        "apiVersion": format!("{GROUP}/v1beta1"), "kind": kind,
        "metadata": {"name": key.name}, "status": status,
    });
    let params = PatchParams::apply(MANAGER).force();
    match api.patch_status(&key.name, &params, &Patch::Apply(object)).await {
        Ok(written) => Ok(written),
        Err(error) if api::code(&error) == Some(404) => Err(Fault::Gone),
        Err(error) => Err(error.into()),
    }
}

/// Both would be written the same way.
fn same<S: Serialize>(one: Option<&S>, other: &S) -> bool {
    one.is_some_and(|one| serde_json::to_value(one).ok() == serde_json::to_value(other).ok())
}
