//! Kinds of objects that a graph owns: what pruning looks through.

use dynosim_api::GROUP;
use kube::core::{ApiResource, GroupVersionKind};

/// A kind of children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedKind {
    /// API group; empty: the core one.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Resource in paths.
    pub plural: &'static str,
    /// What happens to objects that the graph no longer asks for.
    pub orphans: Orphans,
}

/// What happens to objects that a graph no longer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphans {
    /// They are deleted.
    Delete,
    /// They stay until the graph goes: data may be in them.
    Keep,
    /// They are deleted if the cluster has the kind at all.
    DeleteIfKnown,
}

/// All kinds of [`crate::build::Children`], pods' surroundings last, so that what runs goes first.
pub const OWNED: [OwnedKind; 9] = [
    owned("networking.k8s.io", "v1", "Ingress", "ingresses", Orphans::Delete),
    owned("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors", Orphans::DeleteIfKnown),
    owned("apps", "v1", "Deployment", "deployments", Orphans::Delete),
    owned(
        GROUP,
        "v1beta1",
        "DynamoGraphDeploymentScalingAdapter",
        "dynamographdeploymentscalingadapters",
        Orphans::Delete,
    ),
    owned("", "v1", "Service", "services", Orphans::Delete),
    owned("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", Orphans::Keep),
    owned("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", Orphans::Delete),
    owned("rbac.authorization.k8s.io", "v1", "Role", "roles", Orphans::Delete),
    owned("", "v1", "ServiceAccount", "serviceaccounts", Orphans::Delete),
];

const fn owned(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    orphans: Orphans,
) -> OwnedKind {
    OwnedKind { group, version, kind, plural, orphans }
}

impl OwnedKind {
    /// For a client.
    pub fn resource(&self) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(self.group, self.version, self.kind), self.plural)
    }
}
