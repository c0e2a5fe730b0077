//! What the operator may do: all that it has to, and no more.

use std::collections::BTreeSet;

use clap::Parser as _;
use dynosim_operator::arguments::Arguments;
use dynosim_operator::build::handed_on;
use dynosim_operator::{Config, Observed, build, check};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};

use super::{file, objects, template};
use crate::manifests::{self, config, graphs, shape};

/// Rules of all roles that a rendered chart binds to the operator.
fn held(args: &[&str]) -> Option<Vec<PolicyRule>> {
    let yaml = template(args)?.expect("rendered");
    let mut rules = Vec::new();
    for object in objects(&yaml, Some("ClusterRole")) {
        let role: ClusterRole = serde_json::from_value(object).expect("a role");
        if role.metadata.name.is_some_and(|name| name.ends_with("-operator")) {
            rules.extend(role.rules.unwrap_or_default());
        }
    }
    for object in objects(&yaml, Some("Role")) {
        let role: Role = serde_json::from_value(object).expect("a role");
        rules.extend(role.rules.unwrap_or_default());
    }
    Some(rules)
}

fn has(list: Option<&Vec<String>>, wanted: &str) -> bool {
    list.is_some_and(|list| list.iter().any(|text| text == wanted))
}

fn may(held: &[PolicyRule], group: &str, resource: &str, verb: &str) -> bool {
    held.iter().any(|rule| {
        has(rule.api_groups.as_ref(), group)
            && has(rule.resources.as_ref(), resource)
            && rule.resource_names.is_none()
            && has(Some(&rule.verbs), verb)
    })
}

#[test]
fn it_holds_all_that_it_gives_to_pods() {
    let restricted = file("restricted.yaml");
    for args in [&[][..], &["--values", &restricted]] {
        let Some(held) = held(args) else { return };
        let mut given = 0;
        for name in ["disagg.yaml", "global-planner.yaml", "everything.yaml"] {
            for role in graphs(&shape(name)).iter().flat_map(|graph| manifests::children(graph).roles) {
                for rule in role.rules.unwrap_or_default() {
                    for group in rule.api_groups.unwrap_or_default() {
                        for resource in rule.resources.clone().unwrap_or_default() {
                            for verb in &rule.verbs {
                                given += 1;
                                assert!(may(&held, &group, &resource, verb), "{verb} {resource} of {group:?}");
                            }
                        }
                    }
                }
            }
        }
        assert!(given > 50, "{given}");
    }
}

#[test]
fn it_may_make_and_remove_every_kind_of_child() {
    let Some(held) = held(&["--set", "dynamo.metrics.podMonitors.enabled=true"]) else { return };
    let config = Config { pod_monitors: true, ..config() };
    let observed = Observed { has_pod_monitors: true, ..Observed::default() };
    let mut kinds = BTreeSet::new();
    for graph in ["everything.yaml", "alpha-only.yaml"].into_iter().flat_map(|name| graphs(&shape(name))) {
        let valid = manifests::valid(&graph, &config).expect("valid");
        let built = build(&valid.graph, &observed, &config);
        for object in manifests::objects(&built.children) {
            let text = |field: &str| object[field].as_str().expect("text").to_owned();
            kinds.insert((text("apiVersion"), text("kind")));
        }
    }
    assert!(kinds.len() >= 9, "{kinds:?}");
    for (version, kind) in kinds {
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let resource = format!("{}s", kind.to_lowercase()).replace("ingresss", "ingresses");
        // Claims go with their graph only.
        let verbs = ["get", "list", "watch", "create", "patch", "delete"];
        for verb in verbs.into_iter().filter(|verb| (*verb, &resource[..]) != ("delete", "persistentvolumeclaims")) {
            assert!(may(&held, group, &resource, verb), "{verb} {resource} of {group:?}");
        }
    }
}

/// Group, resource and verb of all that rules allow.
fn allowed(rules: &[PolicyRule]) -> BTreeSet<(String, String, String)> {
    let list = |texts: &Option<Vec<String>>| texts.clone().unwrap_or_default();
    let each = |rule: &PolicyRule| {
        let mut found = Vec::new();
        for group in list(&rule.api_groups) {
            for resource in list(&rule.resources) {
                found.extend(rule.verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())));
            }
        }
        found
    };
    rules.iter().flat_map(each).collect()
}

#[test]
fn it_holds_what_it_does_and_what_it_gives_and_no_more() {
    let monitors = "dynamo.metrics.podMonitors.enabled=true,";
    for values in ["", monitors, "namespaceRestriction.enabled=true"] {
        let Some(held) = held(&["--set", values]) else { return };
        let namespace = ["--namespace=team"].into_iter().filter(|_| values.starts_with("namespaceRestriction"));
        let arguments = Arguments::parse_from(["dynosim-operator"].into_iter().chain(namespace));
        let config = Config { pod_monitors: values == monitors, ..config() };
        let mut needed = allowed(&handed_on());
        for rule in check::needed(&arguments, &config) {
            needed.extend(rule.verbs.iter().map(|verb| [rule.group, rule.resource, *verb].map(str::to_owned).into()));
        }
        let held = allowed(&held);
        let [more, less] = [held.difference(&needed), needed.difference(&held)].map(Iterator::collect::<Vec<_>>);
        assert!(more.is_empty() && less.is_empty(), "{values:?}: not used: {more:?}; lacking: {less:?}");
    }
}

#[test]
fn nothing_is_given_by_a_wildcard_and_nothing_cluster_wide_without_need() {
    let Some(everywhere) = held(&[]) else { return };
    for rule in &everywhere {
        for list in [rule.api_groups.as_ref(), rule.resources.as_ref(), Some(&rule.verbs)] {
            assert!(!has(list, "*"), "{rule:?}");
        }
        if has(rule.resources.as_ref(), "secrets") && has(Some(&rule.verbs), "get") {
            assert!(rule.resource_names.is_some(), "{rule:?}");
        }
    }
    let restricted = file("restricted.yaml");
    let yaml = template(&["--values", &restricted]).expect("helm").expect("rendered");
    for object in objects(&yaml, Some("ClusterRole")) {
        let role: ClusterRole = serde_json::from_value(object).expect("a role");
        for rule in role.rules.expect("rules") {
            assert!(rule.resource_names.is_some(), "{rule:?}");
        }
    }
    let beside = file("beside.yaml");
    let yaml = template(&["--values", &beside]).expect("helm").expect("rendered");
    assert!(objects(&yaml, Some("ClusterRole")).is_empty());
}
