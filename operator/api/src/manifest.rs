//! Reads manifests: YAML with one or several documents.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::graph::Graph;
use crate::{GRAPH_KIND, GROUP, MAX_COMPONENTS, v1alpha1, v1beta1};

/// Largest manifest in bytes, as of an API server's request body.
pub const MAX_MANIFEST_BYTES: usize = 3 * 1024 * 1024;
/// Most documents of a manifest.
pub const MAX_DOCUMENTS: usize = 1000;

/// A manifest that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Too much.
    #[error("{found} {what}, {limit} are allowed")]
    TooLarge {
        /// How many.
        found: usize,
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// No YAML.
    #[error("{0}")]
    Yaml(String),
    /// A document that is no Kubernetes object.
    #[error("document {document}: {reason}")]
    Document {
        /// From 1.
        document: usize,
        /// Why.
        reason: String,
    },
    /// A field of a graph.
    #[error("document {document}, {name}: {path}: {reason}")]
    Field {
        /// From 1.
        document: usize,
        /// Kind and name of the object.
        name: String,
        /// Where in the object.
        path: String,
        /// Why.
        reason: String,
    },
}

/// A graph as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    /// `nvidia.com/v1alpha1`.
    V1Alpha1(Box<v1alpha1::DynamoGraphDeployment>),
    /// `nvidia.com/v1beta1`.
    V1Beta1(Box<v1beta1::DynamoGraphDeployment>),
}

impl Resource {
    /// Its form for both versions.
    pub fn graph(&self) -> Graph {
        match self {
            Self::V1Alpha1(resource) => Graph::from(&**resource),
            Self::V1Beta1(resource) => Graph::from(&**resource),
        }
    }
}

/// The documents of a manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// The serving graphs.
    pub graphs: Vec<Resource>,
    /// `kind/name` of all other objects.
    pub others: Vec<String>,
}

impl Manifest {
    /// Reads YAML (or JSON, which is YAML). Empty documents are skipped.
    pub fn read(text: &str) -> Result<Self, ManifestError> {
        limit(text.len(), "bytes", MAX_MANIFEST_BYTES)?;
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(text).map_err(|error| ManifestError::Yaml(error.to_string()))?;
        limit(documents.len(), "documents", MAX_DOCUMENTS)?;
        let mut manifest = Self::default();
        for (index, document) in documents.into_iter().enumerate() {
            if !document.is_null() {
                manifest.add(index + 1, document)?;
            }
        }
        Ok(manifest)
    }

    fn add(&mut self, number: usize, document: Value) -> Result<(), ManifestError> {
        let bad = |reason: String| ManifestError::Document { document: number, reason };
        let Value::Object(fields) = &document else { return Err(bad("not an object with fields".to_owned())) };
        if fields.get("kind").and_then(Value::as_str) == Some("List") {
            let Some(Value::Array(items)) = fields.get("items") else {
                return Err(bad("items: not a list".to_owned()));
            };
            return items.iter().try_for_each(|item| self.add(number, item.clone()));
        }
        let text = |name: &str| match fields.get(name) {
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(bad(format!("{name}: not a text"))),
            None => Err(bad(format!("{name}: missing"))),
        };
        let (api, kind) = (text("apiVersion")?, text("kind")?);
        let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let label = format!("{kind}/{name}");
        let (group, version) = api.split_once('/').unwrap_or(("", api));
        if (group, kind) != (GROUP, GRAPH_KIND) {
            self.others.push(label);
            return Ok(());
        }
        let resource = match version {
            "v1beta1" => Resource::V1Beta1(Box::new(typed(number, &label, document)?)),
            "v1alpha1" => Resource::V1Alpha1(Box::new(typed(number, &label, document)?)),
            _ => {
                return Err(bad(format!(
                    "apiVersion: `{api}` is not served (allowed: {GROUP}/v1beta1, {GROUP}/v1alpha1)"
                )));
            }
        };
        check(number, &label, &resource.graph())?;
        self.graphs.push(resource);
        Ok(())
    }
}

fn limit(found: usize, what: &'static str, limit: usize) -> Result<(), ManifestError> {
    if found > limit { Err(ManifestError::TooLarge { found, what, limit }) } else { Ok(()) }
}

fn typed<T: DeserializeOwned>(document: usize, name: &str, value: Value) -> Result<T, ManifestError> {
    serde_path_to_error::deserialize(value).map_err(|error| ManifestError::Field {
        document,
        name: name.to_owned(),
        path: error.path().to_string(),
        reason: error.inner().to_string(),
    })
}

/// What every use of a graph relies on.
fn check(document: usize, name: &str, graph: &Graph) -> Result<(), ManifestError> {
    let bad = |path: String, reason: String| ManifestError::Field { document, name: name.to_owned(), path, reason };
    if graph.name.is_empty() {
        return Err(bad("metadata.name".to_owned(), "missing".to_owned()));
    }
    if graph.components.is_empty() {
        return Err(bad("spec".to_owned(), "has no components, at least 1 is needed".to_owned()));
    }
    if graph.components.len() > MAX_COMPONENTS {
        let reason = format!("has {} components, {MAX_COMPONENTS} are allowed", graph.components.len());
        return Err(bad("spec".to_owned(), reason));
    }
    for (index, component) in graph.components.iter().enumerate() {
        let path = &component.path;
        if !is_name(&component.name) {
            let reason = format!("`{}` cannot be used (allowed: 1 to 63 letters, digits and hyphens)", component.name);
            return Err(bad(format!("{path}.name"), reason));
        }
        let same = |other: &&crate::Component| other.name.eq_ignore_ascii_case(&component.name);
        if let Some(other) = graph.components[..index].iter().find(same) {
            let reason = format!("`{}` is also the name of {} (case does not count)", component.name, other.path);
            return Err(bad(format!("{path}.name"), reason));
        }
        if let Some(replicas @ ..0) = component.replicas {
            return Err(bad(format!("{path}.replicas"), format!("{replicas} cannot be used (allowed: 0 and more)")));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '-';
    (1..=63).contains(&name.len()) && name.chars().all(inside) && !name.starts_with('-') && !name.ends_with('-')
}
