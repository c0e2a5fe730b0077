//! How payloads of the request and response planes are encoded.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// An encoding. A worker names it in its instance record; without a name it is JSON (workers before 1.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// JSON text.
    #[default]
    Json,
    /// `MessagePack`, structs as maps.
    #[serde(rename = "msgpack")]
    MessagePack,
}

/// A payload that could not be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// JSON.
    #[error("JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Writing `MessagePack`.
    #[error("msgpack: {0}")]
    Encode(#[from] rmp_serde::encode::Error),
    /// Reading `MessagePack`.
    #[error("msgpack: {0}")]
    Decode(#[from] rmp_serde::decode::Error),
}

impl Codec {
    /// Appends `value`.
    pub fn encode_into(self, value: &impl Serialize, buffer: &mut Vec<u8>) -> Result<(), CodecError> {
        match self {
            Self::Json => serde_json::to_writer(buffer, value)?,
            Self::MessagePack => rmp_serde::encode::write_named(buffer, value)?,
        }
        Ok(())
    }

    /// `value` in this encoding.
    pub fn encode(self, value: &impl Serialize) -> Result<Vec<u8>, CodecError> {
        let mut buffer = Vec::new();
        self.encode_into(value, &mut buffer)?;
        Ok(buffer)
    }

    /// Reads one value; unknown fields are ignored.
    pub fn decode<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T, CodecError> {
        Ok(match self {
            Self::Json => serde_json::from_slice(bytes)?,
            Self::MessagePack => rmp_serde::from_slice(bytes)?,
        })
    }
}
