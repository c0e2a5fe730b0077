//! Checks of one component.

use dynosim_api::flags::value_of;
use dynosim_api::v1beta1::ComponentSpec;
use dynosim_api::{ComponentType, Invocation, MAIN_CONTAINER};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::graph::Settings;
use super::{Checks, dynamo_namespace, namespace, pod};
use crate::defaults::{HTTP, HTTP_PORT, Place, SYSTEM, SYSTEM_PORT};
use crate::environment::{known, merge};
use crate::formats::{self, Share};
use crate::keys::annotation;
use crate::validated::{Strategy, ValidatedComponent, ValidatedContainer};
use crate::{defaults, gpus};

/// Shared memory of components that do not say.
const SHARED_MEMORY: &str = "8Gi";
/// A quarter, as of Deployments.
const QUARTER: Share = Share::Percent(25);

impl Checks<'_> {
    /// A component, or none if something is wrong with it that the rest depends on.
    pub(super) fn component(&mut self, index: usize, settings: Settings) -> Option<ValidatedComponent> {
        let graph = self.graph;
        let spec = &graph.spec.components[index];
        let path = format!("spec.components[{index}]");
        let component_type = self.component_type(spec, &path);
        let global = spec.global_dynamo_namespace.unwrap_or_default();
        let base = if global { "dynamo".to_owned() } else { dynamo_namespace(graph) };
        let place = Place {
            namespace: namespace(graph),
            graph: graph.metadata.name.as_deref().unwrap_or_default(),
            dynamo_namespace: &base,
            component_type: &component_type,
            discovery: settings.discovery,
            mode: settings.mode,
        };
        let metadata = spec.pod_template.as_ref().and_then(|template| template.metadata.clone()).unwrap_or_default();
        let (labels, annotations) = (metadata.labels.unwrap_or_default(), metadata.annotations.unwrap_or_default());
        pod::labels(&mut self.problems, &format!("{path}.podTemplate.metadata.labels"), &labels);
        pod::annotations(&mut self.problems, &format!("{path}.podTemplate.metadata.annotations"), &annotations);
        for key in annotation::OF_GRAPHS.into_iter().filter(|key| annotations.contains_key(*key)) {
            let path = format!("{path}.podTemplate.metadata.annotations[{key}]");
            self.problems.warn(path, "has no effect on one component, set it on the graph");
        }
        let strategy = self.strategy(&path, &annotations);
        self.kept_fields(spec, &path);
        let shared_memory = self.shared_memory(spec, &path);
        let compilation_cache = self.compilation_cache(spec, &path);
        let model = self.model(spec, &path);
        let ingress = self.ingress(spec, &component_type);
        let multinode = self.multinode(spec, &path);
        let (pod, containers) = self.pod(spec, &path, &component_type)?;
        let pod_path = format!("{path}.podTemplate.spec");
        let containers = self.programs(&containers, &pod_path, &place, &annotations)?;
        let main = &containers[0];
        let port = server_port(&component_type, main, &self.main_environment(&place, main));
        if port.is_none() && component_type.is_worker() {
            let message = "DYN_SYSTEM_PORT is off: without probes, pods count as ready when they run";
            self.problems.warn(format!("{pod_path}.containers"), message);
        }
        if !multinode {
            return None;
        }
        let gpus = gpus::of_container(&main.container)
            .or_else(|| main.worker.as_ref().and_then(|flags| flags.gpus.map(|gpus| gpus * u32::from(flags.workers))));
        let replicas = self.replicas(spec, &path)?;
        Some(ValidatedComponent {
            name: spec.name.clone(),
            lower: spec.name.to_ascii_lowercase(),
            dynamo_namespace: base.clone(),
            replicas,
            has_adapter: spec.scaling_adapter.is_some(),
            has_metrics: self.setting(&annotations, annotation::METRICS).is_none_or(|(_, text)| text != "false"),
            finds_pull_secrets: self
                .setting(&annotations, annotation::NO_PULL_SECRETS)
                .is_none_or(|(_, text)| text != "true"),
            labels,
            annotations,
            strategy,
            pod,
            containers,
            shared_memory,
            compilation_cache,
            model,
            ingress,
            port,
            gpus,
            component_type,
        })
    }

    fn component_type(&mut self, spec: &ComponentSpec, path: &str) -> ComponentType {
        let Some(text) = spec.component_type.as_deref() else { return ComponentType::Other(String::new()) };
        let known = ["frontend", "worker", "prefill", "decode", "planner", "epp"];
        self.one_of(format!("{path}.type"), text, &known.map(|name| (name, ())));
        ComponentType::of(Some(text))
    }

    fn replicas(&mut self, spec: &ComponentSpec, path: &str) -> Option<u32> {
        let replicas = spec.replicas.unwrap_or(1);
        let read = u32::try_from(replicas).ok();
        if read.is_none() {
            self.problems.error(format!("{path}.replicas"), format!("{replicas} cannot be used (allowed: 0 and more)"));
        }
        read
    }

    /// An annotation of the component's pods, else of the graph, and where it stands.
    pub(super) fn setting(
        &self,
        annotations: &std::collections::BTreeMap<String, String>,
        key: &str,
    ) -> Option<(Option<String>, String)> {
        match annotations.get(key) {
            Some(text) => Some((None, text.clone())),
            None => self.graph_annotation(key).map(|(path, text)| (Some(path), text)),
        }
    }

    fn strategy(&mut self, path: &str, annotations: &std::collections::BTreeMap<String, String>) -> Strategy {
        let at = |found: Option<String>, key: &str| {
            found.unwrap_or_else(|| format!("{path}.podTemplate.metadata.annotations[{key}]"))
        };
        if let Some((found, text)) = self.setting(annotations, annotation::STRATEGY) {
            let allowed = [("RollingUpdate", false), ("Recreate", true)];
            if self.one_of(at(found, annotation::STRATEGY), &text, &allowed) {
                return Strategy::Recreate;
            }
        }
        let mut share = |key: &str| {
            let Some((found, text)) = self.setting(annotations, key) else { return QUARTER };
            formats::count_or_percent(&text).unwrap_or_else(|reason| {
                self.problems.error(at(found, key), format!("`{text}` {reason}"));
                QUARTER
            })
        };
        let (surge, unavailable) = (share(annotation::MAX_SURGE), share(annotation::MAX_UNAVAILABLE));
        if surge.is_zero() {
            let path = format!("{path}.podTemplate.metadata.annotations[{}]", annotation::MAX_SURGE);
            let found = self.setting(annotations, annotation::MAX_SURGE).and_then(|(found, _)| found);
            let path = found.unwrap_or(path);
            if unavailable.is_zero() {
                self.problems
                    .error(path, "0 cannot be used while no pod may be unavailable either: nothing could change");
            } else {
                self.problems.warn(path, "0: a component with one replica has no pod for a while in each update");
            }
        }
        Strategy::Rolling { surge, unavailable }
    }

    /// Fields that this operator does not act on.
    fn kept_fields(&mut self, spec: &ComponentSpec, path: &str) {
        if let Some(count @ ..0) = spec.min_available {
            self.problems
                .error(format!("{path}.minAvailable"), format!("{count} cannot be used (allowed: 0 and more)"));
        }
        if let Some(version) = &spec.runtime_version_override {
            let parts: Vec<_> = version.split('.').collect();
            if parts.len() != 3 || parts.iter().any(|part| part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()))
            {
                let message = format!("`{version}` cannot be used (allowed: MAJOR.MINOR.PATCH)");
                self.problems.error(format!("{path}.runtimeVersionOverride"), message);
            }
        }
        let kept = [
            (spec.min_available.is_some(), "minAvailable"),
            (spec.roles.is_some(), "roles"),
            (spec.epp_config.is_some(), "eppConfig"),
            (spec.frontend_sidecar.is_some(), "frontendSidecar"),
            (spec.dynamo_sidecar.is_some(), "dynamoSidecar"),
            (spec.topology_constraint.is_some(), "topologyConstraint"),
            (spec.experimental.is_some(), "experimental"),
        ];
        for (_, field) in kept.into_iter().filter(|(given, _)| *given) {
            self.problems.warn(format!("{path}.{field}"), "has no effect here, it is kept");
        }
        for field in spec.other.keys() {
            self.problems.warn(format!("{path}.{field}"), "is not known here, it is kept");
        }
        let Some(service) = self.older.as_ref().and_then(|older| older.spec.services.get(&spec.name)) else { return };
        let deprecated = [
            (service.dynamo_namespace.is_some(), "dynamoNamespace", "the graph's is used"),
            (service.autoscaling.is_some(), "autoscaling", "use scalingAdapter"),
        ];
        for (_, field, instead) in deprecated.into_iter().filter(|(given, ..)| *given) {
            let path = format!("spec.services.{}.{field}", spec.name);
            self.problems.warn(path, format!("is deprecated and has no effect, {instead}"));
        }
    }

    fn multinode(&mut self, spec: &ComponentSpec, path: &str) -> bool {
        let Some(multinode) = &spec.multinode else { return true };
        let nodes = multinode.node_count.unwrap_or(2);
        let message = format!(
            "{nodes} nodes per replica cannot be had: a component is one pod here. A simulated engine needs no more nodes for \
             more ranks or GPUs (--data-parallel-size, --ais-tp-size); take `multinode` out"
        );
        self.problems.error(format!("{path}.multinode"), message);
        false
    }

    fn shared_memory(&mut self, spec: &ComponentSpec, path: &str) -> Option<Quantity> {
        let Some(Quantity(text)) = &spec.shared_memory_size else { return Some(Quantity(SHARED_MEMORY.to_owned())) };
        match formats::quantity(text) {
            Ok(()) if text.starts_with('-') => {
                self.problems.error(format!("{path}.sharedMemorySize"), format!("`{text}` cannot be negative"));
            }
            checked => self.problems.check(format!("{path}.sharedMemorySize"), text, checked),
        }
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        (digits.parse::<f64>() != Ok(0.0)).then(|| Quantity(text.clone()))
    }

    fn compilation_cache(&mut self, spec: &ComponentSpec, path: &str) -> Option<(String, String)> {
        let cache = spec.compilation_cache.as_ref()?;
        let path = format!("{path}.compilationCache");
        self.problems.check(format!("{path}.pvcName"), &cache.pvc_name, formats::subdomain(&cache.pvc_name));
        let mount = cache.mount_path.clone().unwrap_or_else(|| "/root/.cache/vllm".to_owned());
        if !mount.starts_with('/') || mount.contains(':') {
            let message = format!("`{mount}` cannot be used (allowed: an absolute path without a colon)");
            self.problems.error(format!("{path}.mountPath"), message);
        }
        Some((cache.pvc_name.clone(), mount))
    }

    fn model(&mut self, spec: &ComponentSpec, path: &str) -> Option<String> {
        let model = spec.model_ref.as_ref()?;
        if model.name.is_empty() {
            self.problems.error(format!("{path}.modelRef.name"), "missing");
        }
        Some(model.name.clone())
    }

    /// The pod without containers, and the containers with the main one first, each with its place in the manifest.
    fn pod(
        &mut self,
        spec: &ComponentSpec,
        path: &str,
        component_type: &ComponentType,
    ) -> Option<(PodSpec, Vec<(usize, Container)>)> {
        let path = format!("{path}.podTemplate.spec");
        let mut pod = spec.pod_template.as_ref().and_then(|template| template.spec.clone()).unwrap_or_default();
        pod::pod(&mut self.problems, &path, &pod);
        let mut containers: Vec<_> = std::mem::take(&mut pod.containers).into_iter().enumerate().collect();
        let named = containers.iter().position(|(_, container)| container.name == MAIN_CONTAINER);
        match (named, containers.len()) {
            (Some(at), _) => containers[..=at].rotate_right(1),
            (None, 0) if dynosim_api::invocation::default_program(component_type).is_some() => {
                containers.push((0, Container { name: MAIN_CONTAINER.to_owned(), ..Container::default() }));
            }
            (None, 0) => {
                self.problems.error(format!("{path}.containers"), "has no container, `main` is needed");
                return None;
            }
            (None, 1) => {
                let message = format!("`{}` is taken for `main`, the container of the component", containers[0].1.name);
                self.problems.warn(format!("{path}.containers[0].name"), message);
            }
            (None, _) => {
                self.problems.error(format!("{path}.containers"), "has no container `main`, and more than one");
                return None;
            }
        }
        Some((pod, containers))
    }

    /// Environment of a main container, as far as the manifest and the type say.
    fn main_environment(
        &self,
        place: &Place<'_>,
        main: &ValidatedContainer,
    ) -> std::collections::BTreeMap<String, String> {
        let own = main.container.env.as_deref().unwrap_or_default();
        let common = defaults::common(place, &main.container.name, self.config);
        known(&merge(&[&common, &self.graph.spec.env, own]))
    }
}

/// The port that a main container's server listens on: its flags and environment say so, else the port with the usual name.
fn server_port(
    component_type: &ComponentType,
    main: &ValidatedContainer,
    env: &std::collections::BTreeMap<String, String>,
) -> Option<u16> {
    let declared = |name: &str| {
        let ports = main.container.ports.as_deref().unwrap_or_default();
        let named = ports.iter().find(|port| port.name.as_deref() == Some(name));
        named.and_then(|port| u16::try_from(port.container_port).ok())
    };
    if *component_type == ComponentType::Frontend {
        let flags = match &main.invocation {
            Invocation::Ours(_, flags) | Invocation::Module(_, flags) => flags.as_slice(),
            _ => &[],
        };
        let given = value_of(flags, "--http-port").or_else(|| env.get("DYN_HTTP_PORT").map(String::as_str));
        let given = given.and_then(|text| text.parse().ok()).filter(|port| *port > 0);
        return Some(given.or_else(|| declared(HTTP)).unwrap_or(HTTP_PORT));
    }
    match env.get("DYN_SYSTEM_PORT").map(|text| text.parse::<i32>()) {
        Some(Ok(..=0)) => None,
        Some(Ok(port)) => u16::try_from(port).ok().or(Some(SYSTEM_PORT)),
        _ => Some(declared(SYSTEM).unwrap_or(SYSTEM_PORT)),
    }
}
