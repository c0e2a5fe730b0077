//! A serving graph in one form for both versions.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec};

use crate::{MAIN_CONTAINER, v1alpha1, v1beta1};

/// What a component is, as its type says. The part that a worker plays in a disaggregated graph is in its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComponentType {
    /// Takes requests from clients.
    Frontend,
    /// Prefill and decode.
    Worker,
    /// Prefill.
    Prefill,
    /// Decode, or prefill and decode.
    Decode,
    /// Scales other components.
    Planner,
    /// Endpoint picker of a Kubernetes gateway.
    Epp,
    /// Anything else; without defaults.
    Other(String),
}

impl ComponentType {
    /// From the text of a manifest.
    pub fn of(text: Option<&str>) -> Self {
        Self::read(text, None)
    }

    /// From the texts of a manifest; `sub` is the older version's further text for workers.
    fn read(text: Option<&str>, sub: Option<&str>) -> Self {
        match (text.unwrap_or_default(), sub) {
            ("frontend", _) => Self::Frontend,
            ("prefill", _) | ("worker", Some("prefill")) => Self::Prefill,
            ("decode", _) | ("worker", Some("decode")) => Self::Decode,
            ("worker", _) => Self::Worker,
            ("planner", _) => Self::Planner,
            ("epp", _) => Self::Epp,
            (other, _) => Self::Other(other.to_owned()),
        }
    }

    /// As manifests write it; `default` if it has no defaults.
    pub fn name(&self) -> &str {
        match self {
            Self::Frontend => "frontend",
            Self::Worker => "worker",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Planner => "planner",
            Self::Epp => "epp",
            Self::Other(_) => "default",
        }
    }

    /// Serves a model.
    pub fn is_worker(&self) -> bool {
        matches!(self, Self::Worker | Self::Prefill | Self::Decode)
    }
}

/// A component.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// As the manifest writes it.
    pub name: String,
    /// What it is.
    pub component_type: ComponentType,
    /// As the manifest writes it; not given: 1. May be negative: nothing was checked yet.
    pub replicas: Option<i32>,
    /// The Dynamo namespace is `dynamo`.
    pub global_namespace: bool,
    /// Program and first arguments; empty: the default of its type.
    pub command: Vec<String>,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment: the graph's entries, then the component's, which win by name.
    pub env: Vec<EnvVar>,
    /// Where in the manifest it stands, for messages.
    pub path: String,
}

/// A serving graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Name.
    pub name: String,
    /// Kubernetes namespace, if the manifest names one.
    pub namespace: Option<String>,
    /// Components in the order of the manifest (older version: by name).
    pub components: Vec<Component>,
}

impl From<&v1beta1::DynamoGraphDeployment> for Graph {
    fn from(resource: &v1beta1::DynamoGraphDeployment) -> Self {
        let spec = &resource.spec;
        let component = |(index, component): (usize, &v1beta1::ComponentSpec)| {
            let pod = component.pod_template.as_ref().and_then(|template| template.spec.as_ref());
            let main = main_container(pod);
            Component {
                name: component.name.clone(),
                component_type: ComponentType::read(component.component_type.as_deref(), None),
                replicas: component.replicas,
                global_namespace: component.global_dynamo_namespace.unwrap_or_default(),
                command: main.and_then(|main| main.command.clone()).unwrap_or_default(),
                args: main.and_then(|main| main.args.clone()).unwrap_or_default(),
                env: merge_env([spec.env.as_slice(), main.and_then(|main| main.env.as_deref()).unwrap_or_default()]),
                path: format!("spec.components[{index}]"),
            }
        };
        Self {
            name: resource.metadata.name.clone().unwrap_or_default(),
            namespace: resource.metadata.namespace.clone(),
            components: spec.components.iter().enumerate().map(component).collect(),
        }
    }
}

impl From<&v1alpha1::DynamoGraphDeployment> for Graph {
    fn from(resource: &v1alpha1::DynamoGraphDeployment) -> Self {
        let spec = &resource.spec;
        let component = |(name, service): (&String, &v1alpha1::ServiceSpec)| {
            let main = service.extra_pod_spec.as_ref().and_then(|pod| pod.main_container.as_ref());
            let main_env = main.map(|main| main.env.as_slice()).unwrap_or_default();
            Component {
                name: name.clone(),
                component_type: ComponentType::read(
                    service.component_type.as_deref(),
                    service.sub_component_type.as_deref(),
                ),
                replicas: service.replicas,
                global_namespace: service.global_dynamo_namespace.unwrap_or_default(),
                command: main.and_then(|main| main.command.clone()).unwrap_or_default(),
                args: main.and_then(|main| main.args.clone()).unwrap_or_default(),
                env: merge_env([main_env, &spec.envs, &service.envs]),
                path: format!("spec.services.{name}"),
            }
        };
        Self {
            name: resource.metadata.name.clone().unwrap_or_default(),
            namespace: resource.metadata.namespace.clone(),
            components: spec.services.iter().map(component).collect(),
        }
    }
}

/// The container that runs the component: `main`, or the only one.
fn main_container(pod: Option<&PodSpec>) -> Option<&Container> {
    let containers = &pod?.containers;
    let named = containers.iter().find(|container| container.name == MAIN_CONTAINER);
    named.or(match containers.as_slice() {
        [only] => Some(only),
        _ => None,
    })
}

/// Entries of all lists by name; later lists win.
fn merge_env<const N: usize>(lists: [&[EnvVar]; N]) -> Vec<EnvVar> {
    let mut merged = BTreeMap::new();
    for variable in lists.into_iter().flatten() {
        merged.insert(variable.name.clone(), variable.clone());
    }
    merged.into_values().collect()
}
