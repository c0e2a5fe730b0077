//! Conversion between the versions of graphs and of scaling adapters, without loss either way.
//!
//! ```text
//!   v1alpha1 ── what both can say ──► v1beta1        the rest, if any, goes along in an annotation
//!            ◄──────────────────────                 and is put back on the way back
//! ```
//!
//! Objects are converted as JSON, so that fields nobody knows, nulls and empty maps stay as they are.

mod adapter;
mod graph;
mod leftovers;
mod pod;
mod review;

use serde_json::{Map, Value};

pub use review::review;

use crate::{ADAPTER_KIND, GRAPH_KIND, GROUP, v1alpha1, v1beta1};
use leftovers::{Group, Leftovers};

/// Holds what the other version can say and this one cannot. Written by conversion; not for people.
pub const LEFTOVERS_ANNOTATION: &str = "nvidia.com/dynosim-other-version";

/// The older version.
const ALPHA: &str = "v1alpha1";
/// The newer version.
const BETA: &str = "v1beta1";

type Fields = Map<String, Value>;

/// An object that cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// Not an object of Kubernetes.
    #[error("{field}: missing or of the wrong type")]
    NoObject {
        /// Which field.
        field: &'static str,
    },
    /// A kind that has one version.
    #[error("kind: `{0}` cannot be converted (allowed: {GRAPH_KIND}, {ADAPTER_KIND})")]
    Kind(String),
    /// A version that there is not.
    #[error("apiVersion: `{0}` is not served (allowed: {GROUP}/{BETA}, {GROUP}/{ALPHA})")]
    Version(String),
}

/// How the parts of a kind that both versions have are said in the other one. Any object is taken: what does not have the
/// form of the kind stays as it is.
struct Translation {
    to_beta: fn(Fields) -> Fields,
    to_alpha: fn(Fields) -> Fields,
    /// What a leftover of the older version is about.
    alpha_group: Group,
    /// The same of the newer.
    beta_group: Group,
}

/// Converts an object to an API version.
pub fn convert(object: Value, api_version: &str) -> Result<Value, ConvertError> {
    let Value::Object(mut object) = object else { return Err(ConvertError::NoObject { field: "object" }) };
    let kind = take_text(&mut object, "kind")?;
    let translation = match kind.as_str() {
        GRAPH_KIND => graph::TRANSLATION,
        ADAPTER_KIND => adapter::TRANSLATION,
        _ => return Err(ConvertError::Kind(kind)),
    };
    let from = take_text(&mut object, "apiVersion")?;
    let Some(Value::Object(mut metadata)) = object.remove("metadata") else {
        return Err(ConvertError::NoObject { field: "metadata" });
    };
    let mut converted = match (version(&from)?, version(api_version)?) {
        (ALPHA, BETA) => translation.alpha_to_beta(&mut metadata, object),
        (BETA, ALPHA) => translation.beta_to_alpha(&mut metadata, object),
        _ => object,
    };
    converted.insert("apiVersion".to_owned(), api_version.into());
    converted.insert("kind".to_owned(), kind.into());
    converted.insert("metadata".to_owned(), metadata.into());
    Ok(Value::Object(converted))
}

/// A stored graph in the older version, with what only that one can say; none if it holds nothing of the kind, as of
/// graphs that were written in the newer version.
pub fn older_form(graph: &v1beta1::DynamoGraphDeployment) -> Option<v1alpha1::DynamoGraphDeployment> {
    let annotation = graph.metadata.annotations.as_ref()?.get(LEFTOVERS_ANNOTATION)?;
    Leftovers::read(annotation, ALPHA)?;
    let converted = convert(serde_json::to_value(graph).ok()?, &format!("{GROUP}/{ALPHA}")).ok()?;
    serde_json::from_value(converted).ok()
}

impl Translation {
    fn alpha_to_beta(&self, metadata: &mut Fields, alpha: Fields) -> Fields {
        let mut beta = (self.to_beta)(alpha.clone());
        if let Some(left) = take_leftovers(metadata, BETA) {
            left.put_back(&mut beta, self.beta_group);
        }
        keep_leftovers(metadata, Leftovers::between(ALPHA, &(self.to_alpha)(beta.clone()), &alpha));
        beta
    }

    fn beta_to_alpha(&self, metadata: &mut Fields, beta: Fields) -> Fields {
        let mut alpha = (self.to_alpha)(beta.clone());
        if let Some(left) = take_leftovers(metadata, ALPHA) {
            left.put_back_unseen(&mut alpha, self.alpha_group, self.to_beta, &beta);
        }
        keep_leftovers(metadata, Leftovers::between(BETA, &(self.to_beta)(alpha.clone()), &beta));
        alpha
    }
}

fn take_text(object: &mut Fields, field: &'static str) -> Result<String, ConvertError> {
    match object.remove(field) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(ConvertError::NoObject { field }),
    }
}

/// One of [`ALPHA`] and [`BETA`].
fn version(api_version: &str) -> Result<&'static str, ConvertError> {
    match api_version.split_once('/') {
        Some((GROUP, ALPHA)) => Ok(ALPHA),
        Some((GROUP, BETA)) => Ok(BETA),
        _ => Err(ConvertError::Version(api_version.to_owned())),
    }
}

fn take_leftovers(metadata: &mut Fields, version: &str) -> Option<Leftovers> {
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return None };
    let text = annotations.remove(LEFTOVERS_ANNOTATION)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    Leftovers::read(text.as_str()?, version)
}

fn keep_leftovers(metadata: &mut Fields, left: Option<Leftovers>) {
    let Some(left) = left else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| Fields::new().into());
    if let Value::Object(annotations) = annotations {
        annotations.insert(LEFTOVERS_ANNOTATION.to_owned(), left.text().into());
    }
}

/// Takes a field if it has the form of an object.
fn take_object(fields: &mut Fields, name: &str) -> Option<Fields> {
    match fields.remove(name)? {
        Value::Object(object) => Some(object),
        other => {
            fields.insert(name.to_owned(), other);
            None
        }
    }
}

/// Takes a field if it has the form of a list.
fn take_list(fields: &mut Fields, name: &str) -> Option<Vec<Value>> {
    match fields.remove(name)? {
        Value::Array(list) => Some(list),
        other => {
            fields.insert(name.to_owned(), other);
            None
        }
    }
}

/// Puts a list that is not empty.
fn put_list(fields: &mut Fields, name: &str, list: Vec<Value>) {
    if !list.is_empty() {
        fields.insert(name.to_owned(), list.into());
    }
}

/// Puts an object that is not empty.
fn put_object(fields: &mut Fields, name: &str, object: Fields) {
    if !object.is_empty() {
        fields.insert(name.to_owned(), object.into());
    }
}

/// Gives a field another name.
fn rename(fields: &mut Fields, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}
