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
    pub(crate) error: Option<String>,
}

/// The end of a response, said by the worker.
pub(crate) const SENTINEL: &[u8] = br#""sentinel""#;
/// No more output is wanted, said by the frontend.
pub(crate) const STOP: &[u8] = br#""stop""#;
/// Nothing more is wanted, said by the frontend.
pub(crate) const KILL: &[u8] = br#""kill""#;
