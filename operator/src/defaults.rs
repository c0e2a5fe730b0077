//! What containers get by the type of their component: environment, ports, probes, command.

use dynosim_api::{ComponentType, Program};
use k8s_openapi::api::core::v1::{ContainerPort, EnvVar, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::config::{Config, Discovery};
use crate::environment::{field, variable};
use crate::validated::DiscoveryMode;

/// Port of a frontend.
pub const HTTP_PORT: u16 = 8000;
/// Port of the system server of all others.
pub const SYSTEM_PORT: u16 = 9090;
/// Port of a planner's metrics.
const PLANNER_PORT: u16 = 9085;
/// Port of an endpoint picker.
pub const EPP_PORT: u16 = 9002;
/// Port of the first rank's transfer metrics.
const NIXL_PORT: u16 = 19090;
/// Ranks with transfer metrics.
const NIXL_RANKS_MAX: u16 = 8;
/// First port that is chosen for the handoff of KV.
pub const BOOTSTRAP_PORT: u16 = 25100;

/// Name of a frontend's port.
pub const HTTP: &str = "http";
/// Name of the system port.
pub const SYSTEM: &str = "system";
/// Name of an endpoint picker's port.
pub const GRPC: &str = "grpc";
/// Name of the port of a planner's metrics.
pub const METRICS: &str = "metrics";

/// Where a component stands.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Kubernetes namespace.
    pub namespace: &'a str,
    /// Name of the graph.
    pub graph: &'a str,
    /// Dynamo namespace without the workers' suffix.
    pub dynamo_namespace: &'a str,
    /// Type of the component.
    pub component_type: &'a ComponentType,
    /// Where components find each other.
    pub discovery: Discovery,
    /// What counts as an instance.
    pub mode: DiscoveryMode,
}

/// Environment of every container that is a part of the graph.
pub fn common(place: &Place<'_>, container: &str, config: &Config) -> Vec<EnvVar> {
    let mut env = vec![
        variable("DYN_NAMESPACE", place.dynamo_namespace),
        variable("DYN_COMPONENT", place.component_type.name()),
        variable("DYN_PARENT_DGD_K8S_NAME", place.graph),
        variable("DYN_PARENT_DGD_K8S_NAMESPACE", place.namespace),
        field("POD_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
        field("POD_UID", "metadata.uid"),
        field("POD_IP", "status.podIP"),
        // Without these a component may tell others an address that only its own pod can reach.
        field("DYN_TCP_RPC_HOST", "status.podIP"),
        field("DYN_HTTP_RPC_HOST", "status.podIP"),
        field("DYN_EVENT_PLANE_HOST", "status.podIP"),
    ];
    if place.discovery == Discovery::Kubernetes {
        env.push(variable("DYN_DISCOVERY_BACKEND", "kubernetes"));
        if place.mode == DiscoveryMode::Container {
            env.push(variable("DYN_KUBE_DISCOVERY_MODE", "container"));
            env.push(variable("CONTAINER_NAME", container));
        }
    }
    let settings = [
        ("NATS_SERVER", &config.nats_addr),
        ("ETCD_ENDPOINTS", &config.etcd_addr),
        ("PROMETHEUS_ENDPOINT", &config.prometheus_endpoint),
        ("MODEL_EXPRESS_URL", &config.model_express_url),
    ];
    env.extend(settings.into_iter().filter_map(|(name, value)| Some(variable(name, value.as_ref()?))));
    env
}

/// Environment of a main container by its type. `port` is that of its server; none: switched off by the manifest.
pub fn of_type(place: &Place<'_>, port: Option<u16>) -> Vec<EnvVar> {
    let system = port.map_or_else(|| "-1".to_owned(), |port| port.to_string());
    match place.component_type {
        ComponentType::Frontend => {
            let port = port.unwrap_or(HTTP_PORT).to_string();
            vec![
                variable("DYNAMO_PORT", &port),
                variable("DYN_HTTP_PORT", &port),
                variable("DYN_NAMESPACE_PREFIX", place.dynamo_namespace),
                variable("DYN_NAMESPACE_PREFIX_STRICT", "true"),
            ]
        }
        kind if kind.is_worker() => vec![
            variable("DYN_SYSTEM_ENABLED", "true"),
            variable("DYN_SYSTEM_PORT", system),
            field("DYN_SYSTEM_HOST", "status.podIP"),
            variable("DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS", r#"["generate"]"#),
            variable("DYN_HEALTH_CHECK_ENABLED", "false"),
            variable("NIXL_TELEMETRY_ENABLE", "n"),
            variable("NIXL_TELEMETRY_EXPORTER", "prometheus"),
            variable("NIXL_TELEMETRY_PROMETHEUS_PORT", NIXL_PORT.to_string()),
        ],
        ComponentType::Planner => {
            vec![variable("PLANNER_PROMETHEUS_PORT", PLANNER_PORT.to_string()), variable("DYN_SYSTEM_PORT", system)]
        }
        _ => Vec::new(),
    }
}

/// A port with a name.
pub fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: i32::from(number),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// `name`, `name-1`, … for the ranks of a worker.
pub fn rank_ports(name: &str, first: u16, ranks: u16) -> impl Iterator<Item = ContainerPort> {
    (0..ranks).map_while(move |rank| Some((rank, first.checked_add(rank)?))).map(move |(rank, number)| match rank {
        0 => port(name, number),
        _ => port(&format!("{name}-{rank}"), number),
    })
}

/// Ports of a main container by its type.
pub fn ports(component_type: &ComponentType, server: Option<u16>, ranks: u16) -> Vec<ContainerPort> {
    let named = |name, number: Option<u16>| number.map(|number| port(name, number)).into_iter();
    match component_type {
        ComponentType::Frontend => named(HTTP, server).collect(),
        kind if kind.is_worker() => {
            named(SYSTEM, server).chain(rank_ports("nixl", NIXL_PORT, ranks.clamp(1, NIXL_RANKS_MAX))).collect()
        }
        ComponentType::Planner => named(METRICS, Some(PLANNER_PORT)).chain(named(SYSTEM, server)).collect(),
        ComponentType::Epp => named(GRPC, Some(EPP_PORT)).collect(),
        _ => Vec::new(),
    }
}

/// Liveness, readiness and startup probe of a main container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probes {
    /// Is started anew if it fails.
    pub liveness: Option<Probe>,
    /// Gets requests while it succeeds.
    pub readiness: Option<Probe>,
    /// The others wait for it.
    pub startup: Option<Probe>,
}

/// Probes of a main container by its type, if its server is on.
pub fn probes(component_type: &ComponentType, port: &IntOrString) -> Probes {
    let get = |path: &str, numbers: [i32; 4]| Some(http_get(path, port, numbers));
    match component_type {
        ComponentType::Frontend => Probes {
            liveness: get("/live", [15, 10, 1, 3]),
            readiness: get("/health", [10, 10, 3, 3]),
            startup: get("/live", [0, 10, 1, 30]),
        },
        // Two hours to start: models are loaded, and simulated ones may be told to take as long.
        kind if kind.is_worker() => Probes {
            liveness: get("/live", [0, 5, 4, 1]),
            readiness: get("/health", [0, 10, 4, 3]),
            startup: get("/live", [0, 10, 5, 720]),
        },
        // A planner serves no endpoint, so that its /health may never be good.
        ComponentType::Planner => Probes {
            liveness: get("/live", [0, 5, 4, 1]),
            readiness: get("/live", [0, 10, 4, 3]),
            startup: get("/live", [0, 10, 5, 720]),
        },
        _ => Probes::default(),
    }
}

/// `numbers`: initial delay, period and timeout in seconds, failures.
fn http_get(path: &str, port: &IntOrString, [delay, period, timeout, failures]: [i32; 4]) -> Probe {
    let action = HTTPGetAction { path: Some(path.to_owned()), port: port.clone(), ..HTTPGetAction::default() };
    Probe {
        http_get: Some(action),
        initial_delay_seconds: (delay > 0).then_some(delay),
        period_seconds: Some(period),
        timeout_seconds: Some(timeout),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

/// The words that start a program of ours, in our image and in published ones.
pub fn command(program: Program) -> Vec<String> {
    ["python3", "-m", program.module()].map(str::to_owned).to_vec()
}
