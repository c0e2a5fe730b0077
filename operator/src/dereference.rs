//! The first step: from the objects that a graph refers to and those that it owns, what the later steps need to know.
//!
//! Reading them is the caller's; here they are plain data.

use std::collections::BTreeMap;

use dynosim_api::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

use crate::keys::{annotation, label};

/// Key of a secret for registries.
const DOCKER_CONFIG: &str = ".dockerconfigjson";
/// The registry of images that name none.
const DOCKER_HUB: &str = "docker.io";

/// Objects of the graph's namespace.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Deployments, the graph's and perhaps others.
    pub deployments: Vec<Deployment>,
    /// Scaling adapters, the graph's and perhaps others.
    pub adapters: Vec<DynamoGraphDeploymentScalingAdapter>,
    /// Secrets for registries.
    pub pull_secrets: Vec<PullSecret>,
    /// Owners of the account of planners.
    pub planner_owners: Vec<OwnerReference>,
    /// The cluster has pod monitors.
    pub has_pod_monitors: bool,
}

/// What the later steps need to know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The time.
    pub now: Timestamp,
    /// Replicas by adapters, by the lower-case name of the component.
    pub adapters: BTreeMap<String, u32>,
    /// The graph's Deployments.
    pub deployments: Vec<SeenDeployment>,
    /// Secrets for registries.
    pub pull_secrets: Vec<PullSecret>,
    /// Who needs the account of planners besides this graph.
    pub planner_owners: Vec<OwnerReference>,
    /// The cluster has pod monitors.
    pub has_pod_monitors: bool,
}

/// A Deployment of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenDeployment {
    /// Name.
    pub name: String,
    /// Lower-case name of its component.
    pub component: String,
    /// Generation of workers.
    pub hash: Option<String>,
    /// Replicas that it asks for.
    pub replicas: u32,
    /// Available pods.
    pub available: u32,
    /// Pods, older ones included.
    pub pods: u32,
    /// Pods of its newest template.
    pub updated: u32,
    /// Ready pods.
    pub ready: u32,
    /// Its status is about its spec.
    pub is_current: bool,
    /// Why the cluster refuses to make its pods, if it does.
    pub refusal: Option<String>,
    /// Its status is about its spec, all replicas are updated and available, and no other pod is left.
    pub settled: bool,
    /// Restart that its pods have seen.
    pub restart: Option<String>,
    /// When its next pod may start.
    pub next_start: Option<Timestamp>,
}

/// A secret and the registries it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullSecret {
    /// Name.
    pub name: String,
    /// Hosts.
    pub registries: Vec<String>,
}

/// Takes from the objects what matters for this graph.
pub fn dereference(graph: &DynamoGraphDeployment, objects: &Objects, now: Timestamp) -> Observed {
    let uid = graph.metadata.uid.as_deref().unwrap_or_default();
    let owned = |metadata: &ObjectMeta| controller(metadata).is_some_and(|owner| owner.uid == uid);
    let mut deployments: Vec<_> =
        objects.deployments.iter().filter(|deployment| owned(&deployment.metadata)).map(seen).collect();
    deployments.sort_by(|one, other| one.name.cmp(&other.name));
    let adapters = objects.adapters.iter().filter(|adapter| owned(&adapter.metadata));
    let adapter = |adapter: &DynamoGraphDeploymentScalingAdapter| {
        let component = adapter.spec.dgd_ref.component_name.as_ref()?.to_ascii_lowercase();
        Some((component, u32::try_from(adapter.spec.replicas).unwrap_or_default()))
    };
    let mut pull_secrets = objects.pull_secrets.clone();
    pull_secrets.sort_by(|one, other| one.name.cmp(&other.name));
    Observed {
        now,
        adapters: adapters.filter_map(adapter).collect(),
        deployments,
        pull_secrets,
        planner_owners: objects.planner_owners.iter().filter(|owner| owner.uid != uid).cloned().collect(),
        has_pod_monitors: objects.has_pod_monitors,
    }
}

pub(crate) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

fn seen(deployment: &Deployment) -> SeenDeployment {
    let metadata = &deployment.metadata;
    let text = |map: &Option<BTreeMap<String, String>>, key: &str| map.as_ref().and_then(|map| map.get(key)).cloned();
    let count = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok());
    let spec = deployment.spec.as_ref();
    let status = deployment.status.as_ref();
    let replicas = count(spec.and_then(|spec| spec.replicas)).unwrap_or(1);
    let template = spec.and_then(|spec| spec.template.metadata.as_ref());
    let of = |read: fn(&DeploymentStatus) -> Option<i32>| count(status.and_then(read)).unwrap_or_default();
    let available = of(|status| status.available_replicas);
    let (pods, updated) = (of(|status| status.replicas), of(|status| status.updated_replicas));
    let current = status.is_some_and(|status| status.observed_generation >= metadata.generation);
    SeenDeployment {
        name: metadata.name.clone().unwrap_or_default(),
        component: text(&metadata.labels, label::COMPONENT).unwrap_or_default().to_ascii_lowercase(),
        hash: text(&metadata.labels, label::WORKER_HASH),
        replicas,
        available,
        pods,
        updated,
        ready: of(|status| status.ready_replicas),
        is_current: current,
        refusal: status.and_then(refusal),
        settled: current && available >= replicas && updated == replicas && pods == replicas,
        restart: template.and_then(|template| text(&template.annotations, annotation::RESTART)),
        next_start: text(&metadata.annotations, annotation::NEXT_START).and_then(|text| text.parse().ok()),
    }
}

/// Quotas and admission refuse pods, which only the Deployment tells of.
fn refusal(status: &DeploymentStatus) -> Option<String> {
    let mut conditions = status.conditions.iter().flatten();
    let failure = conditions.find(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True")?;
    failure.message.clone().or_else(|| failure.reason.clone())
}

pub(crate) fn pull_secret(secret: &Secret) -> Option<PullSecret> {
    let text = secret.data.as_ref()?.get(DOCKER_CONFIG)?;
    let config: Value = serde_json::from_slice(&text.0).ok()?;
    let registries = config.get("auths")?.as_object()?.keys().map(|address| host(address)).collect();
    Some(PullSecret { name: secret.metadata.name.clone()?, registries })
}

/// `https://index.docker.io/v1/` is the address of a host.
fn host(address: &str) -> String {
    let without_scheme = address.split_once("://").map_or(address, |(_, rest)| rest);
    match without_scheme.split('/').next().unwrap_or_default() {
        "index.docker.io" => DOCKER_HUB.to_owned(),
        host => host.to_owned(),
    }
}

/// The registry that an image comes from.
pub fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => DOCKER_HUB,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;

    fn graph() -> DynamoGraphDeployment {
        let object = json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": "g", "uid": "1"}, "spec": {"components": []}});
        serde_json::from_value(object).expect("a graph")
    }

    fn deployment(uid: &str, status: &Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {
                "name": "g-a-12345678", "generation": 2,
                "ownerReferences": [{"apiVersion": "v", "kind": "k", "name": "g", "uid": uid, "controller": true}],
                "labels": {label::COMPONENT: "A", label::WORKER_HASH: "12345678"},
                "annotations": {annotation::NEXT_START: "2026-12-01T00:00:00Z"},
            },
            "spec": {"replicas": 2, "selector": {}, "template": {"metadata": {"annotations": {annotation::RESTART: "r"}}}},
            "status": status,
        }))
        .expect("a deployment")
    }

    #[test]
    fn only_what_the_graph_owns_is_seen() {
        let good = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
        let objects =
            Objects { deployments: vec![deployment("1", &good), deployment("2", &good)], ..Objects::default() };
        let observed = dereference(&graph(), &objects, Timestamp::UNIX_EPOCH);
        let [seen] = &observed.deployments[..] else { panic!("one: {observed:?}") };
        assert_eq!(
            (seen.component.as_str(), seen.hash.as_deref(), seen.restart.as_deref()),
            ("a", Some("12345678"), Some("r"))
        );
        assert!(seen.settled && seen.next_start.is_some());
    }

    #[test]
    fn a_deployment_is_settled_only_without_old_pods_and_with_a_fresh_status() {
        let row = |observed, replicas, updated, available| {
            let status = json!({"observedGeneration": observed, "replicas": replicas, "updatedReplicas": updated,
                "availableReplicas": available});
            seen(&deployment("1", &status)).settled
        };
        assert!(row(2, 2, 2, 2));
        assert!(!row(1, 2, 2, 2) && !row(2, 3, 2, 2) && !row(2, 2, 1, 2) && !row(2, 2, 2, 1));
    }

    #[test]
    fn secrets_are_known_by_their_registries() {
        let config = json!({"auths": {"https://index.docker.io/v1/": {}, "nvcr.io": {}, "localhost:5000/x": {}}});
        let data = BTreeMap::from([(DOCKER_CONFIG.to_owned(), ByteString(config.to_string().into_bytes()))]);
        let metadata = ObjectMeta { name: Some("s".to_owned()), ..ObjectMeta::default() };
        let secret = Secret { metadata, data: Some(data), ..Secret::default() };
        let read = pull_secret(&secret).expect("registries");
        assert_eq!(read.registries, ["docker.io", "localhost:5000", "nvcr.io"]);
        assert_eq!(
            ["a/b:1", "nvcr.io/a", "localhost/a", "a"].map(registry),
            ["docker.io", "nvcr.io", "localhost", "docker.io"]
        );
    }
}
