//! What can be wrong with engine arguments.

use thiserror::Error;

/// Why engine arguments are refused. `field` is the name as it was given, dotted inside objects.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArgsError {
    /// No JSON, something after it, or a key given twice; says where.
    #[error("engine arguments: {0}")]
    Json(String),
    /// The JSON is no object.
    #[error("engine arguments are {found}; allowed: a JSON object")]
    NotAnObject {
        /// The JSON, cut if long.
        found: String,
    },
    /// There is no such argument.
    #[error("`{field}` is no engine argument; {hint}")]
    Unknown {
        /// The key.
        field: String,
        /// A similar name, or all names there.
        hint: String,
    },
    /// Wrong type or out of range.
    #[error("`{field}` is {found}; allowed: {allowed}")]
    Invalid {
        /// The argument.
        field: String,
        /// Its value as JSON, cut if long; or "missing".
        found: String,
        /// What would be valid.
        allowed: String,
    },
    /// Two arguments exclude each other.
    #[error("`{field}` and `{other}` cannot be given together; {reason}")]
    Together {
        /// One.
        field: String,
        /// The other.
        other: String,
        /// Why.
        reason: &'static str,
    },
    /// The argument changes nothing under the other arguments.
    #[error("`{field}` has no effect {condition}; leave it out")]
    NoEffect {
        /// The argument.
        field: String,
        /// Under which arguments.
        condition: String,
    },
    /// A published argument that dynosim does not have yet.
    #[error("`{field}` is {found}, but {feature} not supported yet; allowed: {allowed}")]
    Unsupported {
        /// The argument.
        field: String,
        /// Its value as JSON, cut if long.
        found: String,
        /// What is missing, with its verb.
        feature: &'static str,
        /// The values that mean "off".
        allowed: &'static str,
    },
}
