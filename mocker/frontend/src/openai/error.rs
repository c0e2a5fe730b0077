//! Errors as clients see them.

use std::fmt;
use std::time::Duration;

use ::http::StatusCode;
use bytes::Bytes;
use serde_json::json;

use crate::generate::GenerateError;

/// Longest part of a refused value that a message repeats, in characters.
const MAX_SHOWN: usize = 60;

/// An answer that says what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    /// Status.
    pub(crate) status: StatusCode,
    /// For programs, for example `model_not_found`.
    pub(crate) code: Option<&'static str>,
    /// The field that is wrong, as a path.
    pub(crate) param: Option<String>,
    /// What is wrong and what is allowed.
    pub(crate) detail: String,
    /// When to try again.
    pub(crate) retry_after: Option<Duration>,
}

impl ApiError {
    /// An answer with this status.
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, code: None, param: None, detail: detail.into(), retry_after: None }
    }

    /// The request as a whole is wrong.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// A field is wrong in a way that no list of allowed values says.
    pub(crate) fn field(param: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::invalid(detail) }
    }

    /// A field has a value that is not allowed.
    pub(crate) fn value(param: impl Into<String>, value: &str, allowed: &str) -> Self {
        Self::field(param, format!("`{}` cannot be used (allowed: {allowed})", shown(value)))
    }

    /// A field that must be there is not.
    pub(crate) fn missing(param: &str, allowed: &str) -> Self {
        Self::field(param, format!("missing (allowed: {allowed})"))
    }

    /// No such model.
    pub(crate) fn no_model(name: &str) -> Self {
        let detail = format!("the model `{}` does not exist", shown(name));
        let code = Some("model_not_found");
        Self { param: Some("model".to_owned()), code, ..Self::new(StatusCode::NOT_FOUND, detail) }
    }

    /// The same error, seen from the object that `outer` names.
    pub(crate) fn within(mut self, outer: &str) -> Self {
        if let Some(param) = &mut self.param {
            let dot = if param.is_empty() || param.starts_with('[') { "" } else { "." };
            param.insert_str(0, dot);
            param.insert_str(0, outer);
        }
        self
    }

    /// For clients, as the API names it.
    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => "service_unavailable",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// `{"error": {…}}`.
    pub(crate) fn body(&self) -> Bytes {
        let error = json!({
            "message": self.to_string(),
            "type": self.kind(),
            "param": self.param,
            "code": self.code,
        });
        Bytes::from(json!({ "error": error }).to_string())
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.param {
            Some(param) => write!(f, "{param}: {}", self.detail),
            None => f.write_str(&self.detail),
        }
    }
}

impl From<GenerateError> for ApiError {
    fn from(error: GenerateError) -> Self {
        match error {
            GenerateError::Unavailable { reason, retry_after } => {
                Self { retry_after: Some(retry_after), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, reason) }
            }
            GenerateError::Busy(reason) => Self::new(StatusCode::TOO_MANY_REQUESTS, reason),
            GenerateError::Invalid(reason) => Self::invalid(reason),
            GenerateError::Failed(reason) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, reason),
        }
    }
}

/// The beginning of a value, so that a message stays readable.
fn shown(value: &str) -> String {
    match value.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_field_by_its_path_the_value_and_what_is_allowed() {
        let error = ApiError::value("role", "\"bogus\"", "user").within("[2]").within("messages");
        assert_eq!(error.to_string(), "messages[2].role: `\"bogus\"` cannot be used (allowed: user)");
        let body: serde_json::Value = serde_json::from_slice(&error.body()).unwrap();
        assert_eq!(body["error"]["param"], "messages[2].role");
        assert_eq!(body["error"]["type"], "invalid_request_error");
        assert!(body["error"]["code"].is_null());
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        let error = ApiError::value("x", &"é".repeat(500), "less");
        assert!(error.detail.contains(&format!("`{}…`", "é".repeat(MAX_SHOWN))), "{error}");
    }
}
