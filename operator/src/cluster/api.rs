//! Calls of the Kubernetes API.

use dynosim_api::{ADAPTER_KIND, GRAPH_KIND, GROUP};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};

use crate::kinds::OWNED;

/// Index of a kind in [`OWNED`].
///
/// # Panics
/// If there is no such kind.
pub fn kind(name: &str) -> usize {
    OWNED.iter().position(|kind| kind.kind == name).expect("a kind that graphs own")
}

/// Index of scaling adapters in [`OWNED`].
pub fn adapters() -> usize {
    kind(ADAPTER_KIND)
}

/// Index of Deployments in [`OWNED`].
pub fn deployments() -> usize {
    kind("Deployment")
}

/// Graphs as a resource.
pub fn graphs() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, "v1beta1", GRAPH_KIND);
    ApiResource::from_gvk_with_plural(&kind, "dynamographdeployments")
}

/// Pods, secrets and the like as a resource.
pub fn core(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", kind), plural)
}

/// Where the operator works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everywhere.
    Cluster,
    /// In one namespace.
    Namespace(String),
}

impl Scope {
    /// All objects of a resource there.
    pub fn api(&self, client: &Client, resource: &ApiResource) -> Api<DynamicObject> {
        match self {
            Self::Cluster => Api::all_with(client.clone(), resource),
            Self::Namespace(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        }
    }
}

/// Why a call failed, in one line.
pub fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => {
            let mut text = other.to_string();
            let mut cause = std::error::Error::source(other);
            while let Some(error) = cause {
                let said = error.to_string();
                if !text.contains(&said) {
                    text = format!("{text}: {said}");
                }
                cause = error.source();
            }
            text
        }
    }
}

/// The status code of an answer, if there was one.
pub fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
