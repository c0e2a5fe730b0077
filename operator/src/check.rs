//! What the operator's account has to be allowed, and whether it is.

use std::io::Write;

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::arguments::Arguments;
use crate::cluster::api::Scope;
use crate::cluster::scope::LEASE;
use crate::config::Config;

/// Where a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where the graphs are.
    Graphs,
    /// The operator's own namespace.
    Own,
    /// All namespaces, whatever the operator looks after.
    Everywhere,
    /// Objects of no namespace.
    Cluster,
}

/// What has to be allowed on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// API group.
    pub group: &'static str,
    /// Resource, with a subresource after a slash.
    pub resource: &'static str,
    /// What is done with it.
    pub verbs: &'static [&'static str],
    /// Where.
    pub place: Place,
    /// What for, for who lacks it.
    pub purpose: &'static str,
    /// Only with this.
    pub only: Only,
}

/// When a rule is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// Always.
    Always,
    /// With the webhooks.
    Webhooks,
    /// With pod monitors.
    PodMonitors,
    /// While it looks after the whole cluster.
    WholeCluster,
    /// While it looks after one namespace.
    OneNamespace,
}

const WATCH: &[&str] = &["list", "watch"];
const CREATED: &[&str] = &["create", "delete", "get", "list", "patch", "watch"];
const LEASES: &[&str] = &["create", "get", "update"];
const CONFIGURE: &[&str] = &["get", "list", "patch", "watch"];
const CERTIFICATE: &[&str] = &["create", "get", "list", "update", "watch"];

const fn rule(
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    purpose: &'static str,
) -> Rule {
    Rule { group, resource, verbs, place: Place::Graphs, purpose, only: Only::Always }
}

const NVIDIA: &str = dynosim_api::GROUP;
const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// All that is done with the account, but for what it hands on to the accounts of pods.
pub const RULES: &[Rule] = &[
    rule(NVIDIA, "dynamographdeployments", &["list", "patch", "watch"], "graphs"),
    rule(
        NVIDIA,
        "dynamographdeployments/finalizers",
        &["update"],
        "owner references that hold the graph until its children are gone",
    ),
    rule(NVIDIA, "dynamographdeployments/status", &["patch"], "their status"),
    rule(NVIDIA, "dynamographdeploymentscalingadapters", CREATED, "scaling adapters"),
    rule(NVIDIA, "dynamographdeploymentscalingadapters/status", &["patch"], "their status"),
    rule("apps", "deployments", CREATED, "pods of components"),
    rule("", "services", CREATED, "ways to components"),
    rule("", "serviceaccounts", CREATED, "accounts of pods"),
    rule("", "persistentvolumeclaims", &["create", "get", "list", "patch", "watch"], "volumes that graphs ask for"),
    rule(RBAC, "roles", CREATED, "what pods may do"),
    rule(RBAC, "rolebindings", CREATED, "what pods may do"),
    rule("networking.k8s.io", "ingresses", CREATED, "ways in from outside"),
    Rule { only: Only::PodMonitors, ..rule("monitoring.coreos.com", "podmonitors", CREATED, "pod monitors") },
    rule("", "pods", WATCH, "why pods do not start"),
    rule("", "secrets", WATCH, "secrets for registries"),
    rule("events.k8s.io", "events", &["create", "patch"], "events"),
    Rule { place: Place::Own, ..rule("coordination.k8s.io", "leases", LEASES, "one operator acts") },
    Rule {
        place: Place::Everywhere,
        only: Only::WholeCluster,
        ..rule("coordination.k8s.io", "leases", WATCH, "namespaces with an operator of their own")
    },
    Rule {
        only: Only::OneNamespace,
        ..rule("coordination.k8s.io", "leases", LEASES, "operators of the whole cluster keep away")
    },
    Rule { place: Place::Own, only: Only::Webhooks, ..rule("", "secrets", CERTIFICATE, "the webhooks' certificate") },
    Rule {
        place: Place::Cluster,
        only: Only::Webhooks,
        ..rule(ADMISSION, "mutatingwebhookconfigurations", CONFIGURE, "the webhooks' authority")
    },
    Rule {
        place: Place::Cluster,
        only: Only::Webhooks,
        ..rule(ADMISSION, "validatingwebhookconfigurations", CONFIGURE, "the webhooks' authority")
    },
    Rule {
        place: Place::Cluster,
        only: Only::Webhooks,
        ..rule("apiextensions.k8s.io", "customresourcedefinitions", CONFIGURE, "conversion between versions")
    },
];

/// The rules that an operator with these arguments and settings needs.
pub fn needed<'a>(arguments: &'a Arguments, config: &'a Config) -> impl Iterator<Item = &'static Rule> + 'a {
    RULES.iter().filter(|rule| match rule.only {
        Only::Always => true,
        Only::Webhooks => arguments.webhooks,
        Only::PodMonitors => config.pod_monitors,
        Only::WholeCluster => arguments.namespace.is_none(),
        Only::OneNamespace => arguments.namespace.is_some(),
    })
}

/// Asks the server about all of them and writes what is lacking, one line each; how many lines.
pub async fn check(
    client: &Client,
    arguments: &Arguments,
    config: &Config,
    mut output: impl Write,
) -> Result<usize, String> {
    let scope = arguments.namespace.clone().map_or(Scope::Cluster, Scope::Namespace);
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let mut lacking = 0;
    for rule in needed(arguments, config) {
        for verb in rule.verbs {
            let attributes = attributes(rule, verb, &scope, arguments);
            let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
            let review = SelfSubjectAccessReview { spec, ..Default::default() };
            let answer = reviews.create(&PostParams::default(), &review).await;
            let answer = answer.map_err(|error| crate::cluster::api::reason(&error))?;
            if !answer.status.is_some_and(|status| status.allowed) {
                lacking += 1;
                let group = if rule.group.is_empty() { "" } else { "." };
                writeln!(output, "lacks {verb} {}{group}{} ({})", rule.resource, rule.group, rule.purpose)
                    .map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(lacking)
}

fn attributes(rule: &Rule, verb: &str, scope: &Scope, arguments: &Arguments) -> ResourceAttributes {
    let (resource, subresource) = match rule.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (rule.resource, None),
    };
    let namespace = match (rule.place, scope) {
        (Place::Graphs, Scope::Namespace(namespace)) => Some(namespace.clone()),
        (Place::Own, _) => Some(arguments.own_namespace.clone()),
        _ => None,
    };
    // Roles may name the objects; then only a question that names them too is answered with yes.
    let name = match (rule.resource, rule.place, rule.only) {
        ("leases", Place::Everywhere, _) => Some(LEASE.to_owned()),
        _ if verb == "create" || verb == "list" || verb == "watch" => None,
        ("leases", Place::Own, _) => Some(arguments.leader_election_id.clone()),
        ("leases", _, _) => Some(LEASE.to_owned()),
        ("secrets", Place::Own, _) => Some(arguments.webhook_secret.clone()),
        ("customresourcedefinitions", ..) => Some(format!("dynamographdeployments.{NVIDIA}")),
        (_, Place::Cluster, _) => Some(arguments.webhook_configuration.clone()),
        _ => None,
    };
    ResourceAttributes {
        group: Some(rule.group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        verb: Some(verb.to_owned()),
        namespace,
        name,
        ..ResourceAttributes::default()
    }
}
