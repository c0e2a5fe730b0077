//! Bodies of the `OpenAI` API: requests as they are validated, answers and errors as they are written.

pub(crate) mod answer;
pub(crate) mod chat;
pub(crate) mod completion;
pub(crate) mod error;
pub(crate) mod fields;
pub(crate) mod message;
pub(crate) mod nvext;
pub(crate) mod options;
pub(crate) mod request;
pub(crate) mod sampling;
