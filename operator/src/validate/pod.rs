//! Checks of a pod template: what an API server would refuse in a Deployment, and what the operator needs to own.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, PodSpec, Probe, ResourceRequirements, Volume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::volumes;
use crate::formats;
use crate::problems::Problems;

/// Variables, label and annotation maps are the same at several places.
pub(crate) fn labels(problems: &mut Problems, path: &str, labels: &BTreeMap<String, String>) {
    for (key, value) in labels {
        problems.check(format!("{path}[{key}]"), key, formats::qualified_name(key));
        problems.check(format!("{path}[{key}]"), value, formats::label_value(value));
        if crate::keys::label::OWN.contains(&key.as_str()) {
            problems.warn(format!("{path}[{key}]"), "is set by the operator, this value has no effect");
        }
    }
}

pub(crate) fn annotations(problems: &mut Problems, path: &str, annotations: &BTreeMap<String, String>) {
    for key in annotations.keys() {
        problems.check(format!("{path}[{key}]"), key, formats::qualified_name(&key.to_lowercase()));
        if crate::keys::annotation::OWN.contains(&key.as_str()) {
            problems.warn(format!("{path}[{key}]"), "is set by the operator, this value has no effect");
        }
    }
}

pub(crate) fn environment(problems: &mut Problems, path: &str, variables: &[EnvVar]) {
    for (index, variable) in variables.iter().enumerate() {
        let path = format!("{path}[{index}]");
        problems.check(format!("{path}.name"), &variable.name, formats::variable_name(&variable.name));
        if variables[..index].iter().any(|other| other.name == variable.name) {
            problems
                .warn(format!("{path}.name"), format!("`{}` stands here twice, the last one counts", variable.name));
        }
        let Some(source) = &variable.value_from else { continue };
        if variable.value.as_ref().is_some_and(|value| !value.is_empty()) {
            problems.error(format!("{path}.valueFrom"), "cannot be used beside `value`");
        }
        let given = [
            source.field_ref.is_some(),
            source.resource_field_ref.is_some(),
            source.config_map_key_ref.is_some(),
            source.secret_key_ref.is_some(),
            source.file_key_ref.is_some(),
        ];
        match given.into_iter().filter(|given| *given).count() {
            0 => problems.error(
                format!("{path}.valueFrom"),
                "names no source (allowed: one of fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef, fileKeyRef)",
            ),
            1 => {}
            _ => problems.error(format!("{path}.valueFrom"), "names more than one source"),
        }
        for (name, reference) in [
            ("configMapKeyRef", source.config_map_key_ref.as_ref().map(|r| (&r.name, &r.key))),
            ("secretKeyRef", source.secret_key_ref.as_ref().map(|r| (&r.name, &r.key))),
        ] {
            let Some((object, key)) = reference else { continue };
            problems.check(format!("{path}.valueFrom.{name}.name"), object, formats::subdomain(object));
            if key.is_empty() {
                problems.error(format!("{path}.valueFrom.{name}.key"), "missing");
            }
        }
    }
}

fn environment_sources(problems: &mut Problems, path: &str, sources: &[EnvFromSource]) {
    for (index, source) in sources.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let map = source.config_map_ref.as_ref().map(|map| ("configMapRef", &map.name));
        let secret = source.secret_ref.as_ref().map(|secret| ("secretRef", &secret.name));
        match (map, secret) {
            (Some(_), Some(_)) => problems.error(path, "names both configMapRef and secretRef (allowed: one of them)"),
            (None, None) => problems.error(path, "names no source (allowed: configMapRef or secretRef)"),
            (Some((kind, name)), None) | (None, Some((kind, name))) => {
                problems.check(format!("{path}.{kind}.name"), name, formats::subdomain(name));
            }
        }
    }
}

/// All but the main container's image, which depends on what it runs.
pub(crate) fn pod(problems: &mut Problems, path: &str, pod: &PodSpec) {
    if let Some(policy) = pod.restart_policy.as_deref().filter(|policy| *policy != "Always") {
        problems.error(format!("{path}.restartPolicy"), format!("`{policy}` cannot be used (allowed: Always)"));
    }
    if pod.active_deadline_seconds.is_some() {
        problems.error(format!("{path}.activeDeadlineSeconds"), "cannot be used: pods of a graph have no end");
    }
    if pod.ephemeral_containers.as_ref().is_some_and(|list| !list.is_empty()) {
        problems.error(format!("{path}.ephemeralContainers"), "cannot be used in a template");
    }
    if let Some(seconds @ ..0) = pod.termination_grace_period_seconds {
        let message = format!("{seconds} cannot be used (allowed: 0 and more)");
        problems.error(format!("{path}.terminationGracePeriodSeconds"), message);
    }
    if let Some(name) = &pod.service_account_name {
        problems.check(format!("{path}.serviceAccountName"), name, formats::subdomain(name));
    }
    for (index, secret) in pod.image_pull_secrets.iter().flatten().enumerate() {
        problems.check(
            format!("{path}.imagePullSecrets[{index}].name"),
            &secret.name,
            formats::subdomain(&secret.name),
        );
    }
    let volumes = pod.volumes.as_deref().unwrap_or_default();
    volumes::check(problems, &format!("{path}.volumes"), volumes);
    let mut names: Vec<&str> = Vec::new();
    let all = pod.containers.iter().map(|container| ("containers", container));
    let init = pod.init_containers.iter().flatten().map(|container| ("initContainers", container));
    let (mut place, mut last) = (0, "");
    for (list, one) in all.chain(init) {
        place = if list == last { place + 1 } else { 0 };
        last = list;
        let path = format!("{path}.{list}[{place}]");
        problems.check(format!("{path}.name"), &one.name, formats::dns_label(&one.name));
        if names.contains(&one.name.as_str()) {
            problems.error(format!("{path}.name"), format!("`{}` is also the name of another container", one.name));
        }
        names.push(&one.name);
        container(problems, &path, one, volumes, list == "initContainers");
    }
}

fn container(problems: &mut Problems, path: &str, container: &Container, volumes: &[Volume], init: bool) {
    environment(problems, &format!("{path}.env"), container.env.as_deref().unwrap_or_default());
    environment_sources(problems, &format!("{path}.envFrom"), container.env_from.as_deref().unwrap_or_default());
    ports(problems, path, container);
    volumes::check_mounts(problems, path, container.volume_mounts.as_deref().unwrap_or_default(), volumes);
    if let Some(resources) = &container.resources {
        self::resources(problems, &format!("{path}.resources"), resources);
    }
    let may_probe = !init || container.restart_policy.is_some();
    for (name, given) in [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ] {
        let path = format!("{path}.{name}");
        match given {
            Some(_) if !may_probe => problems.error(path, "an init container that ends has no probes"),
            Some(given) => probe(problems, &path, given, name),
            None => {}
        }
    }
    if let Some(policy) = container.image_pull_policy.as_deref()
        && !["Always", "IfNotPresent", "Never"].contains(&policy)
    {
        let message = format!("`{policy}` cannot be used (allowed: Always, IfNotPresent, Never)");
        problems.error(format!("{path}.imagePullPolicy"), message);
    }
}

fn ports(problems: &mut Problems, path: &str, container: &Container) {
    let ports = container.ports.as_deref().unwrap_or_default();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        if !(1..=i32::from(u16::MAX)).contains(&port.container_port) {
            let message = format!("{} cannot be used (allowed: 1 to 65535)", port.container_port);
            problems.error(format!("{path}.containerPort"), message);
        }
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        if !["TCP", "UDP", "SCTP"].contains(&protocol) {
            let message = format!("`{protocol}` cannot be used (allowed: TCP, UDP, SCTP)");
            problems.error(format!("{path}.protocol"), message);
        }
        let same = |other: &&k8s_openapi::api::core::v1::ContainerPort| {
            other.container_port == port.container_port && other.protocol.as_deref().unwrap_or("TCP") == protocol
        };
        if ports[..index].iter().any(|other| same(&other)) {
            problems.error(format!("{path}.containerPort"), format!("{} stands here twice", port.container_port));
        }
        let Some(name) = &port.name else { continue };
        problems.check(format!("{path}.name"), name, formats::port_name(name));
        if ports[..index].iter().any(|other| other.name.as_ref() == Some(name)) {
            problems.error(format!("{path}.name"), format!("`{name}` stands here twice"));
        }
    }
}

fn probe(problems: &mut Problems, path: &str, probe: &Probe, name: &str) {
    let handlers = [probe.exec.is_some(), probe.http_get.is_some(), probe.tcp_socket.is_some(), probe.grpc.is_some()];
    match handlers.into_iter().filter(|given| *given).count() {
        0 => problems.error(path, "asks nothing (allowed: one of httpGet, tcpSocket, grpc, exec)"),
        1 => {}
        _ => problems.error(path, "asks in more than one way (allowed: one of httpGet, tcpSocket, grpc, exec)"),
    }
    let http = probe.http_get.as_ref().map(|get| ("httpGet", get.port.clone()));
    let tcp = probe.tcp_socket.as_ref().map(|socket| ("tcpSocket", socket.port.clone()));
    let grpc = probe.grpc.as_ref().map(|grpc| ("grpc", IntOrString::Int(grpc.port)));
    for (handler, port) in [http, tcp, grpc].into_iter().flatten() {
        let path = format!("{path}.{handler}.port");
        match port {
            IntOrString::Int(number) if !(1..=i32::from(u16::MAX)).contains(&number) => {
                problems.error(path, format!("{number} cannot be used (allowed: 1 to 65535, or the name of a port)"));
            }
            IntOrString::Int(_) => {}
            IntOrString::String(name) => problems.check(path, &name, formats::port_name(&name)),
        }
    }
    let numbers = [
        ("initialDelaySeconds", probe.initial_delay_seconds, 0),
        ("periodSeconds", probe.period_seconds, 0),
        ("timeoutSeconds", probe.timeout_seconds, 0),
        ("failureThreshold", probe.failure_threshold, 0),
        ("successThreshold", probe.success_threshold, 0),
    ];
    for (field, value, least) in numbers {
        if let Some(value) = value.filter(|value| *value < least) {
            problems.error(format!("{path}.{field}"), format!("{value} cannot be used (allowed: {least} and more)"));
        }
    }
    if name != "readinessProbe" && probe.success_threshold.is_some_and(|threshold| threshold > 1) {
        problems.error(format!("{path}.successThreshold"), "can only be 1 here");
    }
}

fn resources(problems: &mut Problems, path: &str, resources: &ResourceRequirements) {
    for (list, quantities) in [("limits", &resources.limits), ("requests", &resources.requests)] {
        for (name, Quantity(text)) in quantities.iter().flatten() {
            let path = format!("{path}.{list}[{name}]");
            match formats::quantity(text) {
                Ok(()) if text.starts_with('-') => problems.error(path, format!("`{text}` cannot be negative")),
                checked => problems.check(path, text, checked),
            }
        }
    }
}
