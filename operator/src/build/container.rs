//! Containers: the manifest's over what their type gives them.

use dynosim_api::{Invocation, flags};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVar, SeccompProfile, SecurityContext, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::by_kubernetes;
use crate::config::Config;
use crate::defaults::{self, Place, rank_ports};
use crate::environment::{merge, variable};
use crate::validate::programs;
use crate::validate::volumes::{COMPILATION_CACHE, SHARED_MEMORY, TEMPORARY};
use crate::validated::{ValidatedComponent, ValidatedContainer, ValidatedGraph};
use crate::{gpus, secrets};

/// Most ports of a kind that a container declares; they tell readers, nothing depends on them.
const DECLARED_PORTS_MAX: usize = 64;
/// User and group of the operator's image.
const USER: i64 = 1000;

/// The containers of a component's pod, the main one first.
pub(super) fn all(graph: &ValidatedGraph, component: &ValidatedComponent, config: &Config) -> Vec<Container> {
    let place = Place {
        namespace: &graph.namespace,
        graph: &graph.name,
        dynamo_namespace: &component.dynamo_namespace,
        component_type: &component.component_type,
        discovery: graph.discovery,
        mode: graph.mode,
    };
    let build = |(index, container): (usize, &ValidatedContainer)| {
        let mut built = container.container.clone();
        if index == 0 {
            main(&mut built, graph, component, &place, config);
        } else if container.invocation.is_dynamo() {
            let common = defaults::common(&place, &built.name, config);
            built.env = Some(environment(graph, &[&common, &graph.env, own(container)]));
            // Names of ports are for all containers of a pod; those of the main one are the ones that are known.
            let ports = worker_ports(container).into_iter().map(|port| ContainerPort { name: None, ..port });
            built.ports = some(with_ports(ports.collect(), built.ports.take()));
        }
        words(&mut built, container);
        if container.stand_in.is_some() {
            stand_in(&mut built, config);
        }
        built
    };
    component.containers.iter().enumerate().map(build).collect()
}

fn own(container: &ValidatedContainer) -> &[EnvVar] {
    container.container.env.as_deref().unwrap_or_default()
}

/// What the component's type gives its main container.
fn main(
    built: &mut Container,
    graph: &ValidatedGraph,
    component: &ValidatedComponent,
    place: &Place<'_>,
    config: &Config,
) {
    let container = component.main();
    let common = defaults::common(place, &built.name, config);
    let of_type = defaults::of_type(place, component.port);
    built.env = Some(environment(graph, &[&common, &of_type, &graph.env, own(container)]));
    built.ports = some(main_ports(component));
    if programs::is_for_shell(&component.component_type, built) {
        built.command = Some(programs::SHELL.map(str::to_owned).to_vec());
    }
    if let Some(port) = component.port {
        let probes = defaults::probes(&component.component_type, &port_reference(component, port));
        built.liveness_probe = built.liveness_probe.take().or(probes.liveness);
        built.readiness_probe = built.readiness_probe.take().or(probes.readiness);
        built.startup_probe = built.startup_probe.take().or(probes.startup);
    }
    let mut mounts = built.volume_mounts.take().unwrap_or_default();
    if component.shared_memory.is_some() {
        mount(&mut mounts, SHARED_MEMORY, "/dev/shm");
    }
    if let Some((_, path)) = &component.compilation_cache {
        mount(&mut mounts, COMPILATION_CACHE, path);
    }
    built.volume_mounts = some(mounts);
}

/// Environment of a part of the graph. Without a broker events go from pod to pod; components of different releases do not agree
/// on that by themselves.
fn environment(graph: &ValidatedGraph, lists: &[&[EnvVar]]) -> Vec<EnvVar> {
    let merged = merge(lists);
    let has = |name: &str| merged.iter().any(|variable| variable.name == name);
    if !by_kubernetes(graph) || has("DYN_EVENT_PLANE") || has("NATS_SERVER") {
        return merged;
    }
    merge(&[&merged, &[variable("DYN_EVENT_PLANE", "zmq")]])
}

/// Command and arguments.
fn words(built: &mut Container, container: &ValidatedContainer) {
    if let Some((program, given)) = &container.stand_in {
        let mut given = given.clone();
        if container.worker.as_ref().is_some_and(|worker| worker.workers == 1) {
            // The pauses between the pods of a component are the operator's.
            flags::remove(&mut given, "--stagger-delay");
        }
        given.extend(bootstrap_flags(container));
        built.command = Some(defaults::command(*program));
        built.args = some(given);
        return;
    }
    let has_command = built.command.as_ref().is_some_and(|command| !command.is_empty());
    if let Invocation::Ours(program, _) = &container.invocation
        && !has_command
    {
        built.command = Some(defaults::command(*program));
    }
    let extra = bootstrap_flags(container);
    if extra.is_empty() {
        return;
    }
    if is_shell(built)
        && let Invocation::Ours(program, given) = &container.invocation
    {
        // Words after a script are not words of the script.
        built.command = Some(defaults::command(*program));
        built.args = Some(given.clone());
    }
    built.args.get_or_insert_default().extend(extra);
}

fn is_shell(container: &Container) -> bool {
    let first = container.command.iter().flatten().next().map(String::as_str).unwrap_or_default();
    !first.contains("python") && !first.ends_with("dynosim")
}

fn bootstrap_flags(container: &ValidatedContainer) -> Vec<String> {
    if container.bootstrap.is_empty() {
        return Vec::new();
    }
    let list: Vec<_> = container.bootstrap.iter().map(u16::to_string).collect();
    vec!["--bootstrap-ports".to_owned(), list.join(",")]
}

/// The operator's image in place of the manifest's, with all that only the manifest's needed taken away.
fn stand_in(built: &mut Container, config: &Config) {
    built.image = Some(config.mocker_image.clone());
    built.image_pull_policy = Some(config.mocker_image_pull_policy.clone());
    built.resources = built.resources.take().and_then(gpus::without);
    secrets::make_optional(built);
    let mut mounts = built.volume_mounts.take().unwrap_or_default();
    mount(&mut mounts, TEMPORARY, "/tmp");
    built.volume_mounts = Some(mounts);
    built.security_context.get_or_insert_with(|| SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(true),
        run_as_user: Some(USER),
        run_as_group: Some(USER),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..SecurityContext::default()
    });
}

/// Mounts a volume unless something else is mounted there.
fn mount(mounts: &mut Vec<VolumeMount>, name: &str, path: &str) {
    if !mounts.iter().any(|other| other.mount_path.trim_end_matches('/') == path) {
        mounts.push(VolumeMount { name: name.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() });
    }
}

/// Ports of a component's main container.
pub(super) fn main_ports(component: &ValidatedComponent) -> Vec<ContainerPort> {
    let container = component.main();
    let ranks = container.worker.as_ref().map_or(1, |worker| worker.ranks);
    let mut ports = defaults::ports(&component.component_type, component.port, ranks);
    ports.extend(worker_ports(container));
    with_ports(ports, container.container.ports.clone())
}

/// What is to be called in probes and Services: the port's name, if it is declared with one.
pub(super) fn port_reference(component: &ValidatedComponent, number: u16) -> IntOrString {
    let ports = main_ports(component);
    let declared = ports.into_iter().find(|port| port.container_port == i32::from(number) && is_tcp(port));
    declared.and_then(|port| port.name).map_or(IntOrString::Int(i32::from(number)), IntOrString::String)
}

/// Ports of a worker's handoffs and events, each rank its own.
fn worker_ports(container: &ValidatedContainer) -> Vec<ContainerPort> {
    let Some(worker) = &container.worker else { return Vec::new() };
    let bootstrap = if worker.bootstrap.is_empty() { &container.bootstrap } else { &worker.bootstrap };
    let lists = [("bootstrap", bootstrap), ("kv-events", &worker.events), ("kv-replay", &worker.replay)];
    let of_list = |(name, firsts): (&'static str, &Vec<u16>)| {
        let all = firsts.iter().flat_map(|first| rank_ports(name, *first, worker.ranks));
        // Numbered over all workers of the pod, so that names differ.
        let numbered = all.enumerate().map(move |(index, port)| {
            let name = if index == 0 { name.to_owned() } else { format!("{name}-{index}") };
            ContainerPort { name: Some(name), ..port }
        });
        numbered.take(DECLARED_PORTS_MAX).collect::<Vec<_>>()
    };
    lists.into_iter().flat_map(of_list).collect()
}

/// Default ports and the manifest's: one of the same name or number takes the place of the default.
fn with_ports(defaults: Vec<ContainerPort>, given: Option<Vec<ContainerPort>>) -> Vec<ContainerPort> {
    let mut given = given.unwrap_or_default();
    for port in given.iter_mut().filter(|port| port.protocol.is_none()) {
        port.protocol = Some("TCP".to_owned());
    }
    let replaced = |port: &ContainerPort| {
        given.iter().any(|other| {
            let same_number = other.container_port == port.container_port && is_tcp(other);
            same_number || (other.name.is_some() && other.name == port.name)
        })
    };
    let mut ports: Vec<_> = Vec::new();
    for port in defaults.into_iter().filter(|port| !replaced(port)) {
        if !ports.iter().any(|other: &ContainerPort| other.container_port == port.container_port) {
            ports.push(port);
        }
    }
    ports.extend(given);
    ports
}

fn is_tcp(port: &ContainerPort) -> bool {
    port.protocol.as_deref().unwrap_or("TCP") == "TCP"
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
