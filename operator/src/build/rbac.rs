//! Accounts of pods and what they may do, in the graph's namespace only.

use dynosim_api::{ComponentType, GROUP};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::by_kubernetes;
use super::meta::{Texts, graph_labels, metadata, owner, texts};
use crate::keys::label;
use crate::names;
use crate::validated::ValidatedGraph;

/// An account, its role and what binds them.
pub(super) type Access = (ServiceAccount, Role, RoleBinding);

const READ: [&str; 3] = ["get", "list", "watch"];
const ALL: [&str; 7] = ["create", "get", "list", "watch", "update", "patch", "delete"];

/// For the components' discovery.
pub(super) fn discovery(graph: &ValidatedGraph) -> Option<Access> {
    if !by_kubernetes(graph) {
        return None;
    }
    let named = |name: String| metadata(graph, name, graph_labels(graph, "rbac"), Texts::new());
    Some(access(&graph.namespace, &names::discovery_account(&graph.name), discovery_rules(), named))
}

fn discovery_rules() -> Vec<PolicyRule> {
    vec![
        rule("", &["pods", "endpoints"], &READ),
        rule("discovery.k8s.io", &["endpointslices"], &READ),
        rule(GROUP, &["dynamoworkermetadatas"], &ALL),
    ]
}

/// What the accounts of pods are allowed: the operator may only hand on what it is allowed itself.
pub fn handed_on() -> Vec<PolicyRule> {
    [discovery_rules(), planner_rules()].concat()
}

/// For planners. Its name is published, so all graphs of a namespace share it: each that has a planner is an owner, and it
/// goes with the last one.
pub(super) fn planner(graph: &ValidatedGraph, others: &[OwnerReference]) -> Option<Access> {
    graph.components.iter().find(|component| component.component_type == ComponentType::Planner)?;
    let mut owners = others.to_vec();
    owners.push(owner(graph, false));
    owners.sort_by(|one, other| one.uid.cmp(&other.uid));
    let named = |name: String| ObjectMeta {
        name: Some(name),
        namespace: Some(graph.namespace.clone()),
        labels: Some(texts([
            (label::MANAGED_BY, label::MANAGER),
            (label::PART, "rbac"),
            (label::NAME, names::PLANNER_ACCOUNT),
        ])),
        owner_references: Some(owners.clone()),
        ..ObjectMeta::default()
    };
    Some(access(&graph.namespace, names::PLANNER_ACCOUNT, planner_rules(), named))
}

fn planner_rules() -> Vec<PolicyRule> {
    vec![
        rule(
            GROUP,
            &["dynamographdeployments", "dynamocomponentdeployments"],
            &["get", "list", "create", "update", "patch"],
        ),
        rule(GROUP, &["dynamographdeploymentscalingadapters"], &["get", "list"]),
        rule(GROUP, &["dynamographdeploymentscalingadapters/scale"], &["get", "update", "patch"]),
        rule(GROUP, &["dynamoworkermetadatas"], &ALL),
        rule("discovery.k8s.io", &["endpointslices"], &READ),
        rule("", &["pods"], &["get", "list", "watch", "patch"]),
    ]
}

fn access(namespace: &str, account: &str, rules: Vec<PolicyRule>, named: impl Fn(String) -> ObjectMeta) -> Access {
    let role = Role { metadata: named(names::role(account)), rules: Some(rules) };
    let binding = RoleBinding {
        metadata: named(names::binding(account)),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "Role".to_owned(),
            name: names::role(account),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.to_owned(),
            namespace: Some(namespace.to_owned()),
            api_group: None,
        }]),
    };
    let account = ServiceAccount { metadata: named(account.to_owned()), ..ServiceAccount::default() };
    (account, role, binding)
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(list(resources)),
        verbs: list(verbs),
        ..PolicyRule::default()
    }
}
