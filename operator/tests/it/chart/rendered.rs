//! What the chart renders, and that the program and an API server take it as it is meant.

use std::path::Path;

use clap::Parser as _;
use dynosim_api::{GROUP, crd};
use dynosim_operator::arguments::Arguments;
use dynosim_operator::config::{Config, Discovery, ImagePolicy, MOCKER_IMAGE};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{NAMESPACE, chart, file, objects, only, template};
use crate::manifests::folder;

/// Files with values, with none first; each has a golden.
const SETS: [&str; 5] = ["default", "everything", "restricted", "beside", "published"];
/// How the group of the monitors of Prometheus is told from Kubernetes' own.
const MONITORING: &str = "monitoring.coreos.com";

fn rendered(set: &str) -> Option<String> {
    let values = file(&format!("{set}.yaml"));
    let args: &[&str] = if set == "default" { &[] } else { &["--values", &values] };
    template(args).map(|rendered| rendered.unwrap_or_else(|error| panic!("{set}: {error}")))
}

/// A value whose numbers can be compared: some are whole in YAML and not in Kubernetes' types.
fn comparable(mut value: Value) -> Value {
    match &mut value {
        Value::Number(number) => value = number.as_f64().into(),
        Value::Array(items) => items.iter_mut().for_each(|item| *item = comparable(item.take())),
        Value::Object(fields) => fields.values_mut().for_each(|field| *field = comparable(field.take())),
        _ => {}
    }
    value
}

fn known<T: Serialize + DeserializeOwned>(object: &Value) -> Value {
    let typed: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    serde_json::to_value(typed).expect("JSON")
}

/// An object with the fields that Kubernetes knows of it, and no others.
fn typed(object: &Value) -> Value {
    match object["kind"].as_str().expect("a kind") {
        "ServiceAccount" => known::<ServiceAccount>(object),
        "ConfigMap" => known::<ConfigMap>(object),
        "Service" => known::<Service>(object),
        "Deployment" => known::<Deployment>(object),
        "PodDisruptionBudget" => known::<PodDisruptionBudget>(object),
        "NetworkPolicy" => known::<NetworkPolicy>(object),
        "ClusterRole" => known::<ClusterRole>(object),
        "ClusterRoleBinding" => known::<ClusterRoleBinding>(object),
        "Role" => known::<Role>(object),
        "RoleBinding" => known::<RoleBinding>(object),
        "MutatingWebhookConfiguration" => known::<MutatingWebhookConfiguration>(object),
        "ValidatingWebhookConfiguration" => known::<ValidatingWebhookConfiguration>(object),
        "CustomResourceDefinition" => known::<CustomResourceDefinition>(object),
        kind => panic!("the chart has no {kind}"),
    }
}

#[test]
fn each_set_of_values_renders_its_golden() {
    for set in SETS {
        let Some(yaml) = rendered(set) else { return };
        // The definitions have files of their own.
        let documents: Vec<_> =
            yaml.split("---\n").filter(|text| !text.contains("\nkind: CustomResourceDefinition\n")).collect();
        // A release changes what its version stands in, and no more.
        let text = documents.join("---\n").replace(env!("CARGO_PKG_VERSION"), "VERSION");
        let lines = text.lines().map(|line| line.split_once("dynosim/settings: ").map_or(line, |(before, _)| before));
        let text = lines.map(str::trim_end).chain([""]).collect::<Vec<_>>().join("\n");
        dynosim_peers::assert_golden(&folder("golden/chart").join(format!("{set}.yaml")), &text);
    }
}

#[test]
fn every_field_is_one_that_kubernetes_knows() {
    for set in SETS {
        let Some(yaml) = rendered(set) else { return };
        let objects = objects(&yaml, None);
        assert!(objects.len() >= 6, "{set}: {} objects", objects.len());
        for object in objects {
            if !object["apiVersion"].as_str().is_some_and(|version| version.starts_with(MONITORING)) {
                let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
                let [known, rendered] = [typed(&object), object.clone()].map(comparable);
                assert!(known == rendered, "{set}: {kind} {name}: {rendered}, of which is known: {known}");
            }
        }
    }
}

#[test]
fn other_projects_groups_are_named_only_if_they_are_asked_for() {
    for set in ["default", "restricted", "beside"] {
        let Some(yaml) = rendered(set) else { return };
        assert!(!yaml.contains(MONITORING), "{set}");
        for object in objects(&yaml, None) {
            for group in object["rules"].as_array().into_iter().flatten().flat_map(|rule| strings(&rule["apiGroups"])) {
                assert!(group.is_empty() || group.ends_with(".k8s.io") || ["apps", GROUP].contains(&group), "{group}");
            }
        }
    }
    let Some(everything) = rendered("everything") else { return };
    assert_eq!(objects(&everything, Some("ServiceMonitor")).len(), 1);
    let apis = ["--api-versions", "monitoring.coreos.com/v1/PodMonitor", "--api-versions"];
    let found = template(&[&apis[..], &["monitoring.coreos.com/v1/ServiceMonitor"]].concat()).expect("helm");
    let found = found.expect("rendered");
    assert_eq!(objects(&found, Some("ServiceMonitor")).len(), 1, "where the cluster has it");
    assert!(settings(&found).pod_monitors, "where the cluster has it");
}

/// Texts of a list.
fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().expect("text"))
}

fn settings(yaml: &str) -> Config {
    let maps = objects(yaml, Some("ConfigMap"));
    let text = maps.iter().find_map(|map| map["data"]["settings.yaml"].as_str()).expect("settings");
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What the program makes of its command line.
fn arguments(yaml: &str) -> Arguments {
    let deployment = only(yaml, "Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let words: Vec<_> = ["command", "args"].into_iter().flat_map(|part| strings(&container[part])).collect();
    Arguments::try_parse_from(&words).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_program_takes_the_settings() {
    let Some(yaml) = rendered("default") else { return };
    assert_eq!(settings(&yaml), Config::default());
    assert_eq!(settings(&yaml).mocker_image, MOCKER_IMAGE);
    let everything = settings(&rendered("everything").expect("helm"));
    assert_eq!(everything.image_policy, ImagePolicy::Manifest);
    assert_eq!(everything.mocker_image, "registry.example/dynosim:mocker");
    assert_eq!(everything.mocker_image_pull_policy, "Always");
    assert_eq!(everything.image_pull_secrets, ["ours", "theirs"]);
    assert_eq!(everything.discovery_backend, Discovery::Etcd);
    assert_eq!(everything.nats_addr.as_deref(), Some("nats://nats:4222"));
    assert_eq!(everything.etcd_addr.as_deref(), Some("http://etcd:2379"));
    assert_eq!(everything.prometheus_endpoint.as_deref(), Some("http://prometheus:9090"));
    assert_eq!(everything.model_express_url.as_deref(), Some("http://express"));
    assert!(everything.ingress.enabled && everything.pod_monitors);
    assert_eq!(everything.ingress.class_name.as_deref(), Some("nginx"));
    assert_eq!(everything.ingress.host_suffix.as_deref(), Some("graphs.example"));
    assert_eq!(everything.ingress.tls_secret_name.as_deref(), Some("frontends"));
}

#[test]
fn the_program_takes_the_flags() {
    let Some(yaml) = rendered("default") else { return };
    let plain = arguments(&yaml);
    assert!(plain.webhooks && plain.leader_elect && plain.namespace.is_none());
    let everything = arguments(&rendered("everything").expect("helm"));
    assert_eq!(everything.webhook_service, "sim-webhook");
    assert_eq!(everything.leader_election_id, "lead");
    assert!(everything.webhook_cert_dir.is_some());
    let restricted = arguments(&rendered("restricted").expect("helm"));
    assert_eq!(restricted.namespace.as_deref(), Some("team"));
    assert_eq!(restricted.webhook_configuration, "dynosim-team-webhook");
    assert_eq!(restricted.namespace_lease_duration.as_secs(), 30);
    let beside = arguments(&rendered("beside").expect("helm"));
    assert_eq!(beside.namespace.as_deref(), Some(NAMESPACE));
    assert!(!beside.webhooks);
    let lease = template(&["--set", "namespaceRestriction.enabled=true,namespaceRestriction.lease.duration=2m"]);
    assert_eq!(arguments(&lease.expect("helm").expect("rendered")).namespace_lease_duration.as_secs(), 120);
}

#[test]
fn what_the_names_in_flags_stand_for_is_rendered() {
    for set in ["default", "everything", "restricted"] {
        let Some(yaml) = rendered(set) else { return };
        let arguments = arguments(&yaml);
        let named = |kind: &str, name: &str| {
            objects(&yaml, Some(kind)).into_iter().find(|object| object["metadata"]["name"] == name).expect(name)
        };
        let service = named("Service", &arguments.webhook_service);
        let pod = &only(&yaml, "Deployment")["spec"]["template"];
        for (label, value) in service["spec"]["selector"].as_object().expect("a selector") {
            assert_eq!(&pod["metadata"]["labels"][label], value);
        }
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            let configuration = named(kind, &arguments.webhook_configuration);
            for webhook in configuration["webhooks"].as_array().expect("webhooks") {
                assert_eq!(webhook["clientConfig"]["service"]["name"], arguments.webhook_service.as_str());
                assert_eq!(webhook["clientConfig"]["service"]["namespace"], NAMESPACE);
            }
        }
        for definition in objects(&yaml, Some("CustomResourceDefinition")) {
            let conversion = &definition["spec"]["conversion"];
            if conversion["strategy"] == "Webhook" {
                let service = &conversion["webhook"]["clientConfig"]["service"];
                assert_eq!(service["name"], arguments.webhook_service.as_str());
                assert_eq!(service["namespace"], NAMESPACE);
            }
        }
    }
}

#[test]
fn the_chart_has_the_definitions_and_the_version_of_the_workspace() {
    for definition in crd::definitions() {
        let name = crd::file_name(&definition);
        dynosim_peers::assert_golden(&chart().join("files/crds").join(name), &crd::yaml(&definition));
    }
    let text = std::fs::read_to_string(chart().join("Chart.yaml")).expect("Chart.yaml");
    let description: Value = serde_saphyr::from_str(&text).expect("YAML");
    for field in ["version", "appVersion"] {
        assert_eq!(description[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
    let Some(yaml) = rendered("default") else { return };
    let rendered = objects(&yaml, Some("CustomResourceDefinition"));
    assert_eq!(rendered.len(), crd::definitions().len());
    for mut object in rendered {
        assert_eq!(object["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
        let name = object["metadata"]["name"].take();
        let own = crd::definitions()
            .into_iter()
            .find(|definition| name == *crd::file_name(definition).trim_end_matches(".yaml"));
        let own = serde_json::to_value(own.expect("a definition")).expect("JSON");
        assert!(comparable(object["spec"].take()) == comparable(own["spec"].clone()), "{name}");
    }
}

#[test]
fn dashboards_ask_for_metrics_that_there_are_in_panels_with_titles() {
    let families = chart().join("../../mocker/frontend/src/metrics/families.rs");
    let families = std::fs::read_to_string(families).expect("the frontend's metrics");
    for entry in std::fs::read_dir(chart().join("files/dashboards")).expect("a folder") {
        let path = entry.expect("a file").path();
        let dashboard = read_json(&path);
        let panels = dashboard["panels"].as_array().expect("panels");
        assert!(panels.len() >= 6, "{}", path.display());
        for panel in panels {
            assert!(panel["title"].as_str().is_some_and(|title| !title.is_empty()), "{panel}");
            for target in panel["targets"].as_array().expect("targets") {
                let expression = target["expr"].as_str().expect("an expression");
                assert!(expression.contains("dynamo_"), "{expression}");
                for rest in expression.split("dynamo_frontend_").skip(1) {
                    let name = rest.split(|letter: char| !letter.is_ascii_alphabetic() && letter != '_').next();
                    let name = name.expect("a name").trim_end_matches("_bucket").trim_end_matches("_sum");
                    assert!(families.contains(&format!("\"{name}\"")), "dynamo_frontend_{name}");
                }
            }
        }
    }
}

#[test]
fn helm_finds_nothing_to_blame() {
    let Some(program) = dynosim_peers::helm() else { return };
    let folder = chart().display().to_string();
    let output = super::helm(&program, &["lint", &folder, "--strict", "--kube-version", super::KUBERNETES]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn read_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("read");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
