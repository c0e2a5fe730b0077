//! What is in the header of a response frame.

use serde::{Deserialize, Serialize};

/// The first frame of who calls back: which request it answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) subject: String,
    /// `response`; a worker may also ask for the rest of a streamed request, which no frontend sends.
    pub(crate) stream_type: String,
}

/// The second frame: whether there will be an answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Prologue {
    /// Why there is none. Alone, it says that this worker cannot answer; another may.
    pub(crate) error: Option<String>,
    /// The same by its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) typed_error: Option<TypedError>,
}

/// An error with its kind.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TypedError {
    pub(crate) error_type: String,
    #[serde(default)]
    pub(crate) message: String,
}

/// The kind of a request that no worker can answer; the frontend tells its client 400.
const INVALID_ARGUMENT: &str = "InvalidArgument";
/// Kinds that every worker would say.
const HOPELESS: [&str; 3] = [INVALID_ARGUMENT, "InvalidRequest", "PayloadTooLarge"];

/// Why a worker does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It cannot now; another may.
    Here(String),
    /// No worker can.
    Everywhere(String),
}

impl Prologue {
    pub(crate) fn new(refusal: Option<Refusal>) -> Self {
        let typed = |message: &String| TypedError { error_type: INVALID_ARGUMENT.to_owned(), message: message.clone() };
        match refusal {
            None => Self::default(),
            Some(Refusal::Here(reason)) => Self { error: Some(reason), typed_error: None },
            Some(Refusal::Everywhere(reason)) => Self { typed_error: Some(typed(&reason)), error: Some(reason) },
        }
    }

    pub(crate) fn refusal(self) -> Option<Refusal> {
        match (self.error, self.typed_error) {
            (error, Some(typed)) if HOPELESS.contains(&typed.error_type.as_str()) => {
                Some(Refusal::Everywhere(error.unwrap_or(typed.message)))
            }
            (Some(error), _) => Some(Refusal::Here(error)),
            (None, Some(typed)) => Some(Refusal::Here(typed.message)),
            (None, None) => None,
        }
    }
}

/// The end of a response, said by the worker.
pub(crate) const SENTINEL: &[u8] = br#""sentinel""#;
/// No more output is wanted, said by the frontend.
pub(crate) const STOP: &[u8] = br#""stop""#;
/// Nothing more is wanted, said by the frontend.
pub(crate) const KILL: &[u8] = br#""kill""#;
