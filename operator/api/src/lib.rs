//! Types of the Kubernetes resources that the operator serves. No client, no runtime.
//!
//! ```text
//!   YAML ──► manifest ──► v1alpha1, v1beta1: a graph as it was written ──► graph: its components, one form for both
//!                             │        ▲
//!                             │        └── convert: from one version to the other and back, without loss
//!                             │                               └─► invocation, flags: what a container runs
//!                             └──► crd: definitions for API servers, kept in `crds/`
//! ```
//!
//! Fields that are not known here are kept beside the known ones. The same types serve a cluster and `dynosim up`.
//!
//! The published operator has a kind `DynamoComponentDeployment` between a graph and its pods. There is none here: nobody
//! but that operator writes or reads it, and a graph's deployments can be made from the graph.

pub mod convert;
pub mod crd;
pub mod expand;
pub mod flags;
pub mod graph;
pub mod invocation;
pub mod manifest;
mod schema;
mod shared;
mod unknown;
pub mod v1alpha1;
pub mod v1beta1;

pub use k8s_openapi::api::core::v1::EnvVar;

pub use graph::{Component, ComponentType, Graph};
pub use invocation::{Invocation, Program};
pub use manifest::{Manifest, ManifestError};
pub use unknown::unknown_fields;

/// Group of the resources.
pub const GROUP: &str = "nvidia.com";
/// Kind of a serving graph.
pub const GRAPH_KIND: &str = "DynamoGraphDeployment";
/// Kind of what sets a component's replicas.
pub const ADAPTER_KIND: &str = "DynamoGraphDeploymentScalingAdapter";
/// Kind of what a worker says of itself.
pub const WORKER_KIND: &str = "DynamoWorkerMetadata";
/// Most components of a graph.
pub const MAX_COMPONENTS: usize = 25;
/// The container of a pod that runs the component.
pub const MAIN_CONTAINER: &str = "main";
