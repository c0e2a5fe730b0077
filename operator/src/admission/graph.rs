//! Graphs.

use dynosim_api::convert::convert;
use dynosim_api::v1beta1::{ComponentSpec, DynamoGraphDeployment as Graph};
use dynosim_api::{GROUP, unknown_fields};
use kube::core::DynamicObject;
use kube::core::admission::AdmissionRequest;
use serde_json::{Value, json};

use super::older::Older;
use super::{Admission, Verdict, changes, decode, plain};
use crate::keys::annotation;
use crate::names::{PLANNER_ACCOUNT, child};
use crate::problems::{Invalid, Problem, Problems};
use crate::validate::validate;

/// Replicas of a component that does not say.
const REPLICAS: i32 = 1;
/// What [`annotation::ORIGIN`] says.
const ORIGIN: &str = env!("CARGO_PKG_VERSION");

/// A graph that is to be stored, and the one that is.
struct Pair {
    new: Graph,
    /// Its spec as it was sent.
    json: Value,
    old: Option<Old>,
    /// The older version was sent.
    older: Option<Older>,
}

struct Old {
    graph: Graph,
    phase: Option<String>,
}

impl Admission<'_> {
    pub(super) fn mutate_graph(&self, request: &AdmissionRequest<DynamicObject>, object: &DynamicObject) -> Verdict {
        let mut verdict = Verdict::default();
        let mut warned = Problems::default();
        // The check against the definition names all that cannot be read, decoding only the first.
        let Ok(mut pair) = Pair::read(request, object) else { return verdict };
        let owns_replicas = self.owns_replicas(request);
        let old = pair.old.as_ref().map(|old| &old.graph);
        let name = pair.new.metadata.name.clone().unwrap_or_default();
        for (index, component) in pair.new.spec.components.iter_mut().enumerate() {
            let given = component.replicas;
            let path = format!("spec.components[{index}].replicas");
            let kept = if owns_replicas { None } else { kept_replicas(component, old) };
            component.replicas = kept.or(given).or(Some(REPLICAS));
            if component.replicas != given {
                let pointer = format!("/spec/components/{index}/replicas");
                verdict.patch.push(json!({"op": "add", "path": pointer, "value": component.replicas}));
            }
            if let (Some(kept), Some(given)) = (kept, given)
                && kept != given
            {
                let adapter = child(&name, &component.name.to_ascii_lowercase());
                let message = format!(
                    "stays {kept}, its scaling adapter sets it: kubectl scale dgdsa/{adapter} --replicas={given}"
                );
                warned.warn(path, message);
            }
        }
        verdict.patch.extend(origin(&pair, object));
        let (problems, immutable) = self.problems(&pair);
        // The validating webhook is asked next, and warns of the rest.
        let warnings = if problems.errors.is_empty() { Vec::new() } else { problems.warnings };
        pair.say(&mut warned);
        warned.errors = problems.errors;
        warned.warnings.extend(warnings);
        verdict.problems = warned;
        verdict.immutable = immutable;
        verdict
    }

    pub(super) fn validate_graph(&self, request: &AdmissionRequest<DynamicObject>, object: &DynamicObject) -> Verdict {
        match Pair::read(request, object) {
            Ok(pair) => {
                let (problems, immutable) = self.problems(&pair);
                Verdict { problems, immutable, patch: Vec::new() }
            }
            Err(problem) => {
                let problems = Problems { errors: vec![problem], warnings: Vec::new() };
                Verdict { problems, ..Verdict::default() }
            }
        }
    }

    /// All that is wrong with a graph or noteworthy, in the words of the version that was sent; and how many of the last errors
    /// are about what cannot be changed.
    fn problems(&self, pair: &Pair) -> (Problems, usize) {
        let mut found = self.problems_of(&pair.new);
        let mut immutable = Problems::default();
        match &pair.old {
            None if pair.new.spec.restart.is_some() => {
                found.error("spec.restart", "cannot be given when a graph is created, there is nothing to restart");
            }
            None => {}
            Some(old) => {
                changes::check(&mut immutable, &pair.new, &old.graph, old.phase.as_deref());
                if pair.has_old_spec() {
                    let before = self.problems_of(&old.graph);
                    found.errors.retain(|error| !before.errors.contains(error));
                    found.warnings.retain(|warning| !before.warnings.contains(warning));
                }
            }
        }
        let changed = immutable.errors.len();
        found.errors.append(&mut immutable.errors);
        pair.say(&mut found);
        if !pair.has_old_spec() {
            for path in pair.unknown() {
                if !found.warnings.iter().any(|warning| warning.path == path) {
                    found.warn(path, "is not known here, it is kept");
                }
            }
        }
        (found, changed)
    }

    fn problems_of(&self, graph: &Graph) -> Problems {
        match validate(graph, self.config) {
            Ok(valid) => Problems { errors: Vec::new(), warnings: valid.warnings },
            Err(Invalid(problems)) => problems,
        }
    }

    /// Whether who asks may set replicas of which an adapter decides: the operator, which writes what the adapter says, and
    /// planners.
    fn owns_replicas(&self, request: &AdmissionRequest<DynamicObject>) -> bool {
        let user = request.user_info.username.as_deref().unwrap_or_default();
        let namespace = request.namespace.as_deref().unwrap_or_default();
        user == self.operator || user == format!("system:serviceaccount:{namespace}:{PLANNER_ACCOUNT}")
    }
}

/// The replicas that stay because an adapter decides about them.
fn kept_replicas(component: &ComponentSpec, old: Option<&Graph>) -> Option<i32> {
    component.scaling_adapter.as_ref()?;
    let before = changes::same(old?, component)?;
    before.scaling_adapter.as_ref()?;
    before.replicas
}

/// The annotation that tells which release a graph was made with, for new ones.
fn origin(pair: &Pair, object: &DynamicObject) -> Option<Value> {
    let annotations = object.metadata.annotations.as_ref();
    if pair.old.is_some() || annotations.is_some_and(|annotations| annotations.contains_key(annotation::ORIGIN)) {
        return None;
    }
    if annotations.is_none() {
        return Some(json!({"op": "add", "path": "/metadata/annotations", "value": {annotation::ORIGIN: ORIGIN}}));
    }
    let key = annotation::ORIGIN.replace('/', "~1");
    Some(json!({"op": "add", "path": format!("/metadata/annotations/{key}"), "value": ORIGIN}))
}

fn defaulted(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    for component in &mut graph.spec.components {
        component.replicas = component.replicas.or(Some(REPLICAS));
    }
    graph
}

impl Pair {
    fn read(request: &AdmissionRequest<DynamicObject>, object: &DynamicObject) -> Result<Self, Problem> {
        let json = plain(request, object);
        let new = decode(&json)?;
        let old = request.old_object.as_ref().and_then(|object| {
            let graph = decode(&plain(request, object)).ok()?;
            Some(Old { graph, phase: changes::phase(&object.data).map(str::to_owned) })
        });
        let is_older = request.request_kind.as_ref().is_some_and(|kind| kind.version == "v1alpha1");
        let older = if is_older { convert(json.clone(), &format!("{GROUP}/v1alpha1")).ok() } else { None };
        let older = older.map(|json| Older::new(&new, json));
        Ok(Self { new, json, old, older })
    }

    /// Only what stands beside the spec has changed, if anything.
    fn has_old_spec(&self) -> bool {
        self.old.as_ref().is_some_and(|old| defaulted(&old.graph).spec == defaulted(&self.new).spec)
    }

    /// Puts paths in the words of the version that was sent.
    fn say(&self, problems: &mut Problems) {
        let Some(older) = &self.older else { return };
        for problem in problems.errors.iter_mut().chain(&mut problems.warnings) {
            problem.path = older.path(&problem.path);
            problem.message = older.text(&problem.message);
        }
    }

    /// Fields of the version that was sent that it does not have.
    fn unknown(&self) -> Vec<String> {
        unknown_fields(self.older.as_ref().map_or(&self.json, |older| &older.json))
    }
}
