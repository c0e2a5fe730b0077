//! Answers to an API server that asks whether an object may be stored, and as what.
//!
//! ```text
//!   review ──► mutate ────► defaults, what only the operator writes ─┐
//!          └─► validate ─────────────────────────────────────────────┴─► all errors at once, or warnings
//! ```
//!
//! Pure: no client, no clock. Both webhooks refuse a graph that cannot be used. Mutating ones are asked before the API server
//! checks an object against its definition, so that what people read is one list of all errors; what cannot even be read as a
//! graph is left to that check and to the validating webhook.
//!
//! An update is held against what was stored: errors that the object had before do not count while its spec stays as it is.
//! Objects that are being deleted are let through, else their finalizers could not be removed.

mod adapter;
mod changes;
mod graph;
mod older;

use dynosim_api::{ADAPTER_KIND, GRAPH_KIND, GROUP};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, Operation};
use kube::core::response::{StatusCause, StatusDetails, StatusSummary};
use kube::core::{DynamicObject, Status};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::Config;
use crate::problems::{Problem, Problems};

/// The version in which webhooks see objects: their `matchPolicy` is to be `Equivalent`.
const VERSION: &str = "v1beta1";

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// What a graph is to be stored as.
    MutateGraph,
    /// Whether a graph may be stored.
    ValidateGraph,
    /// Whether a scaling adapter may be stored.
    ValidateAdapter,
}

impl Question {
    /// The kind that it is about.
    pub fn kind(self) -> &'static str {
        match self {
            Self::MutateGraph | Self::ValidateGraph => GRAPH_KIND,
            Self::ValidateAdapter => ADAPTER_KIND,
        }
    }
}

/// Why an object is refused, as metrics have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// It cannot be used.
    Invalid,
    /// It is another one than it may become.
    Immutable,
    /// The question makes no sense.
    BadRequest,
}

impl Denial {
    /// The value of a label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Invalid => "invalid_config",
            Self::Immutable => "immutable_field_changed",
            Self::BadRequest => "bad_request",
        }
    }
}

/// The answer to a review.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What the API server is sent.
    pub response: AdmissionResponse,
    /// What was done to the object; none if the review does not say.
    pub operation: Option<Operation>,
    /// Why it was refused.
    pub denial: Option<Denial>,
}

/// What answers depend on besides the review.
#[derive(Clone, Debug)]
pub struct Admission<'a> {
    /// Settings that graphs are built by.
    pub config: &'a Config,
    /// Name of the operator's own user.
    pub operator: &'a str,
}

/// What came of looking at an object.
#[derive(Debug, Default)]
struct Verdict {
    problems: Problems,
    /// Errors that say that something cannot be changed, at the end of the others.
    immutable: usize,
    /// JSON patch.
    patch: Vec<Value>,
}

impl Admission<'_> {
    /// The answer to a review.
    pub fn answer(&self, question: Question, review: AdmissionReview<DynamicObject>) -> Answer {
        let request: AdmissionRequest<DynamicObject> = match review.try_into() {
            Ok(request) => request,
            Err(error) => return bad_request(AdmissionResponse::invalid(error), None),
        };
        let response = AdmissionResponse::from(&request);
        let operation = Some(request.operation.clone());
        let is_part = request.sub_resource.as_ref().is_some_and(|name| !name.is_empty());
        let (false, Some(object), Operation::Create | Operation::Update) =
            (is_part, &request.object, &request.operation)
        else {
            return Answer { response, operation, denial: None };
        };
        if let Err(message) = check_kind(question, object) {
            return bad_request(response.deny(message), operation);
        }
        if object.metadata.deletion_timestamp.is_some() {
            return Answer { response, operation, denial: None };
        }
        let verdict = match question {
            Question::MutateGraph => self.mutate_graph(&request, object),
            Question::ValidateGraph => self.validate_graph(&request, object),
            Question::ValidateAdapter => adapter::validate(&request, object),
        };
        answer(response, operation, object, verdict)
    }
}

fn check_kind(question: Question, object: &DynamicObject) -> Result<(), String> {
    let (version, kind) = object.types.as_ref().map_or(("", ""), |types| (&*types.api_version, &*types.kind));
    let wanted = format!("{GROUP}/{VERSION}");
    if kind != question.kind() {
        return Err(format!("kind: `{kind}` is not answered for here (allowed: {})", question.kind()));
    }
    if version != wanted {
        return Err(format!(
            "apiVersion: `{version}` is not answered for (allowed: {wanted}, which the matchPolicy Equivalent gives)"
        ));
    }
    Ok(())
}

fn answer(
    mut response: AdmissionResponse,
    operation: Option<Operation>,
    object: &DynamicObject,
    verdict: Verdict,
) -> Answer {
    let Problems { errors, warnings } = verdict.problems;
    if !warnings.is_empty() {
        response.warnings = Some(warnings.iter().map(ToString::to_string).collect());
    }
    if errors.is_empty() {
        if !verdict.patch.is_empty()
            && let Ok(patch) = serde_json::from_value(verdict.patch.into())
        {
            response = response.with_patch(patch).unwrap_or_else(AdmissionResponse::invalid);
        }
        return Answer { response, operation, denial: None };
    }
    let denial = if verdict.immutable == errors.len() { Denial::Immutable } else { Denial::Invalid };
    response.allowed = false;
    response.result = refusal(object, &errors);
    Answer { response, operation, denial: Some(denial) }
}

/// All errors in one message for people, and one by one for programs.
fn refusal(object: &DynamicObject, errors: &[Problem]) -> Status {
    let cause = |error: &Problem| StatusCause {
        reason: "FieldValueInvalid".to_owned(),
        message: error.message.clone(),
        field: error.path.clone(),
    };
    let all: Vec<_> = errors.iter().map(ToString::to_string).collect();
    Status {
        status: Some(StatusSummary::Failure),
        code: 422,
        message: all.join("; "),
        metadata: None,
        reason: "Invalid".to_owned(),
        details: Some(StatusDetails {
            name: object.metadata.name.clone().unwrap_or_default(),
            group: GROUP.to_owned(),
            kind: object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default(),
            uid: String::new(),
            causes: errors.iter().map(cause).collect(),
            retry_after_seconds: 0,
        }),
    }
}

fn bad_request(mut response: AdmissionResponse, operation: Option<Operation>) -> Answer {
    response.result.code = 400;
    "BadRequest".clone_into(&mut response.result.reason);
    Answer { response, operation, denial: Some(Denial::BadRequest) }
}

/// An object as a type, without what is the operator's or the API server's to write; or what cannot be read, and where.
fn decode<T: DeserializeOwned>(object: &Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(object).map_err(|error| {
        let path = error.path().to_string();
        Problem { path, message: error.into_inner().to_string() }
    })
}

/// An object as JSON, without what is the operator's or the API server's to write.
fn plain(request: &AdmissionRequest<DynamicObject>, object: &DynamicObject) -> Value {
    let metadata = ObjectMeta { managed_fields: None, ..named(request, &object.metadata) };
    let object = DynamicObject { metadata, ..object.clone() };
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.remove("status");
    }
    value
}

/// Metadata with a name, which API servers make up only after the first webhooks, and a namespace.
fn named(request: &AdmissionRequest<DynamicObject>, metadata: &ObjectMeta) -> ObjectMeta {
    let mut metadata = metadata.clone();
    if metadata.name.as_deref().unwrap_or_default().is_empty()
        && let Some(start) = metadata.generate_name.as_deref().filter(|start| !start.is_empty())
    {
        metadata.name = Some(format!("{start}{MADE_UP}"));
    }
    if metadata.namespace.is_none() {
        metadata.namespace.clone_from(&request.namespace);
    }
    metadata
}

/// As long as what API servers make up.
const MADE_UP: &str = "00000";
