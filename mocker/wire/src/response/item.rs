//! What is in the body of a response frame.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::codec::{Codec, CodecError};
use crate::protocol::Annotated;

/// How an endpoint wraps its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapping {
    /// `{"data": {"data": value, …}}`: LLM endpoints.
    Annotated,
    /// `{"data": value}`: all others.
    Plain,
}

/// A frame's body.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Item<D> {
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<D>,
    /// Nothing follows.
    #[serde(default)]
    pub(crate) complete_final: bool,
}

impl<D> Item<D> {
    /// A value that others may follow.
    pub(crate) fn of(data: D) -> Self {
        Self { data: Some(data), complete_final: false }
    }
}

/// Reads a frame's body.
pub(crate) fn decode<T: DeserializeOwned>(
    codec: Codec,
    wrapping: Wrapping,
    body: &[u8],
) -> Result<Item<Annotated<T>>, CodecError> {
    match wrapping {
        Wrapping::Annotated => codec.decode(body),
        Wrapping::Plain => {
            let Item { data, complete_final } = codec.decode::<Item<T>>(body)?;
            Ok(Item { data: data.map(Annotated::of), complete_final })
        }
    }
}
