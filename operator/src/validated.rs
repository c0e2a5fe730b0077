//! A graph that was proven to be usable: all that the builders read, in the form in which they need it.

use std::collections::BTreeMap;

use dynosim_api::v1alpha1::VolumeClaim;
use dynosim_api::{ComponentType, Invocation, Program};
use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::config::Discovery;
use crate::formats::Share;
use crate::problems::Problem;
use crate::restart::Restart;
use crate::roll::Update;
use crate::stagger::Rule;
use crate::worker_flags::WorkerFlags;

/// A graph that can be built.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedGraph {
    /// Name.
    pub name: String,
    /// Kubernetes namespace.
    pub namespace: String,
    /// Identity in the cluster, for owner references.
    pub uid: String,
    /// Labels for all children.
    pub labels: BTreeMap<String, String>,
    /// Annotations for all children.
    pub annotations: BTreeMap<String, String>,
    /// Environment of all components.
    pub env: Vec<EnvVar>,
    /// Where components find each other.
    pub discovery: Discovery,
    /// What counts as an instance.
    pub mode: DiscoveryMode,
    /// Workers add their generation to the Dynamo namespace.
    pub has_suffix: bool,
    /// The components in the manifest's order.
    pub components: Vec<ValidatedComponent>,
    /// Volume claims to create.
    pub claims: Vec<VolumeClaim>,
    /// Restart that is asked for.
    pub restart: Option<Restart>,
    /// What the operator decided, for the status.
    pub notes: Vec<Problem>,
}

impl ValidatedGraph {
    /// The component with this lower-case name.
    pub fn component(&self, lower: &str) -> Option<&ValidatedComponent> {
        self.components.iter().find(|component| component.lower == lower)
    }
}

/// What counts as an instance in Kubernetes discovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiscoveryMode {
    /// A pod.
    #[default]
    Pod,
    /// Each container.
    Container,
}

/// A component that can be built.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedComponent {
    /// As the manifest writes it.
    pub name: String,
    /// As names of children contain it.
    pub lower: String,
    /// What it is.
    pub component_type: ComponentType,
    /// Replicas of the manifest.
    pub replicas: u32,
    /// A scaling adapter decides about replicas.
    pub has_adapter: bool,
    /// Dynamo namespace without the workers' suffix.
    pub dynamo_namespace: String,
    /// Labels for its pods.
    pub labels: BTreeMap<String, String>,
    /// Annotations for its pods.
    pub annotations: BTreeMap<String, String>,
    /// Pod monitors see it.
    pub has_metrics: bool,
    /// Pull secrets are looked for.
    pub finds_pull_secrets: bool,
    /// How its Deployment replaces pods.
    pub strategy: Strategy,
    /// The manifest's pod without containers.
    pub pod: PodSpec,
    /// Its containers, the main one first.
    pub containers: Vec<ValidatedContainer>,
    /// Memory at `/dev/shm`; none: no volume.
    pub shared_memory: Option<Quantity>,
    /// A claim that the main container mounts for compiled code.
    pub compilation_cache: Option<(String, String)>,
    /// Name of the model it serves, for a Service by model.
    pub model: Option<String>,
    /// How clients outside reach it.
    pub ingress: Option<IngressRule>,
    /// Port that the main container's HTTP or system server listens on; none: switched off.
    pub port: Option<u16>,
    /// GPUs that a replica asks for in the manifest, or that its simulated engine has.
    pub gpus: Option<u32>,
}

impl ValidatedComponent {
    /// The container that runs the component.
    pub fn main(&self) -> &ValidatedContainer {
        &self.containers[0]
    }

    /// Belongs to a generation of workers.
    pub fn is_worker(&self) -> bool {
        self.component_type.is_worker()
    }

    /// How replicas are staggered: those of simulated workers only, all others start at once.
    pub fn stagger(&self) -> Rule {
        match &self.main().worker {
            Some(flags) if flags.workers > 1 => Rule::Auto,
            Some(flags) => flags.stagger,
            None => Rule::Every(std::time::Duration::ZERO),
        }
    }
}

/// A container and what it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedContainer {
    /// As the manifest has it.
    pub container: Container,
    /// What it runs, with known variables replaced.
    pub invocation: Invocation,
    /// The operator's image stands in for the manifest's, with these flags.
    pub stand_in: Option<(Program, Vec<String>)>,
    /// What its flags mean, if it runs a simulated worker.
    pub worker: Option<WorkerFlags>,
    /// First port of each worker for the handoff of KV, chosen by the operator.
    pub bootstrap: Vec<u16>,
}

/// How a Deployment replaces pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Bit by bit.
    Rolling {
        /// More than the replicas.
        surge: Share,
        /// Fewer than the replicas.
        unavailable: Share,
    },
    /// All old pods go first.
    Recreate,
}

impl Strategy {
    /// In pods, for so many replicas. Shares that both come to nothing leave one pod unavailable, as in Kubernetes.
    pub fn update(self, replicas: u32) -> Update {
        match self {
            Self::Recreate => Update::Recreate,
            Self::Rolling { surge, unavailable } => match (surge.up(replicas), unavailable.down(replicas)) {
                (0, 0) => Update::Rolling { surge: 0, unavailable: 1 },
                (surge, unavailable) => Update::Rolling { surge, unavailable },
            },
        }
    }
}

/// How clients outside the cluster reach a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressRule {
    /// Host.
    pub host: String,
    /// Class.
    pub class: Option<String>,
    /// Secret with the certificate.
    pub tls_secret: Option<String>,
    /// Labels of the Ingress.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Ingress.
    pub annotations: BTreeMap<String, String>,
}
