//! The second step: proves all that the builders rely on, and finds all that is wrong at once.

mod component;
mod graph;
mod ingress;
mod pod;
pub(crate) mod programs;
pub(crate) mod volumes;

use dynosim_api::convert::older_form;
use dynosim_api::v1beta1::DynamoGraphDeployment;
use dynosim_api::{MAX_COMPONENTS, v1alpha1};

use crate::config::Config;
use crate::problems::{Invalid, Problem, Problems};
use crate::validated::ValidatedGraph;

/// A graph that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Valid {
    /// What the builders need.
    pub graph: ValidatedGraph,
    /// Fields that have no effect, or another one than expected.
    pub warnings: Vec<Problem>,
}

/// What all checks share.
struct Checks<'a> {
    graph: &'a DynamoGraphDeployment,
    /// Fields that only the older version has.
    older: Option<v1alpha1::DynamoGraphDeployment>,
    config: &'a Config,
    problems: Problems,
    notes: Vec<Problem>,
}

/// Checks a graph. Needs no cluster, so that admission and reconciliation agree.
pub fn validate(graph: &DynamoGraphDeployment, config: &Config) -> Result<Valid, Invalid> {
    let mut checks =
        Checks { graph, older: older_form(graph), config, problems: Problems::default(), notes: Vec::new() };
    checks.metadata();
    checks.spec();
    let settings = checks.settings();
    let spec = &graph.spec;
    if spec.components.is_empty() {
        checks.problems.error("spec.components", "has no components, at least 1 is needed");
    }
    if spec.components.len() > MAX_COMPONENTS {
        let message = format!("has {} components, {MAX_COMPONENTS} are allowed", spec.components.len());
        checks.problems.error("spec.components", message);
    }
    checks.component_names();
    let components: Vec<_> = (0..spec.components.len()).filter_map(|index| checks.component(index, settings)).collect();
    let claims = checks.claims();
    let restart = checks.restart();
    let has_suffix = checks.has_suffix(&components);
    let Checks { problems, notes, .. } = checks;
    if !problems.errors.is_empty() || components.len() != spec.components.len() {
        return Err(Invalid(problems));
    }
    let metadata = &graph.metadata;
    let graph = ValidatedGraph {
        name: metadata.name.clone().unwrap_or_default(),
        namespace: namespace(graph).to_owned(),
        uid: metadata.uid.clone().unwrap_or_default(),
        labels: spec.labels.clone(),
        annotations: spec.annotations.clone(),
        env: spec.env.clone(),
        discovery: settings.discovery,
        mode: settings.mode,
        has_suffix,
        components,
        claims,
        restart,
        notes,
    };
    Ok(Valid { graph, warnings: problems.warnings })
}

/// The Kubernetes namespace of a graph; manifests that were not sent yet may name none.
fn namespace(graph: &DynamoGraphDeployment) -> &str {
    graph.metadata.namespace.as_deref().unwrap_or("default")
}

/// The Dynamo namespace of a graph's components without the workers' suffix.
fn dynamo_namespace(graph: &DynamoGraphDeployment) -> String {
    format!("{}-{}", namespace(graph), graph.metadata.name.as_deref().unwrap_or_default())
}
