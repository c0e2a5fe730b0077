//! What etcd's JSON gateway says. It writes 64-bit numbers as text, leaves out zeros, and has bytes as base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::discovery::DiscoveryError;

/// gRPC's code for something that is not there.
const NOT_FOUND: i64 = 5;
/// gRPC's code for something that is there already or must not be.
const FAILED_PRECONDITION: i64 = 9;

/// A call that came to nothing.
#[derive(Debug)]
pub(super) enum Fault {
    /// No endpoint could be reached, or none made sense; it may work later.
    Unreachable(DiscoveryError),
    /// The server understood and refused.
    Refused {
        /// Which server.
        endpoint: String,
        /// Why.
        refusal: Refusal,
    },
}

impl Fault {
    #[allow(clippy::needless_pass_by_value, reason = "texts and errors are told alike")]
    pub(super) fn unreachable(endpoint: &str, reason: impl std::fmt::Display) -> Self {
        Self::Unreachable(DiscoveryError::Etcd { endpoint: endpoint.to_owned(), reason: reason.to_string() })
    }

    /// The lease or key that the call is about does not exist.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { refusal, .. } if refusal.code == NOT_FOUND)
    }

    /// The lease that was to be made exists.
    pub(super) fn is_there_already(&self) -> bool {
        matches!(self, Self::Refused { refusal, .. } if refusal.code == FAILED_PRECONDITION)
    }
}

impl From<Fault> for DiscoveryError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unreachable(error) => error,
            Fault::Refused { endpoint, refusal } => Self::Etcd { endpoint, reason: refusal.reason().to_owned() },
        }
    }
}

/// Why the server refused; it says the text twice or once, depending on its release.
#[derive(Debug, Deserialize)]
pub(super) struct Refusal {
    #[serde(default)]
    message: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    pub(super) code: i64,
}

impl Refusal {
    /// For an answer that is no refusal of etcd's own.
    pub(super) fn unnamed(status: StatusCode) -> Self {
        Self { message: format!("answered {status}"), error: String::new(), code: 0 }
    }

    pub(super) fn reason(&self) -> &str {
        if self.message.is_empty() { &self.error } else { &self.message }
    }
}

/// State of the store when it answered.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Header {
    #[serde(default, deserialize_with = "number")]
    pub(super) revision: i64,
}

/// Answer to a grant of a lease, and within that to a keep-alive.
#[derive(Debug, Deserialize)]
pub(super) struct Lease {
    #[serde(default, rename = "ID", deserialize_with = "number")]
    pub(super) id: i64,
    /// Seconds; 0: there is no such lease.
    #[serde(default, rename = "TTL", deserialize_with = "number")]
    pub(super) ttl: i64,
}

/// A message of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct Streamed<T> {
    pub(super) result: T,
}

/// A key with its value.
#[derive(Debug, Deserialize)]
pub(super) struct Pair {
    #[serde(deserialize_with = "bytes")]
    pub(super) key: Vec<u8>,
    #[serde(default, deserialize_with = "bytes")]
    pub(super) value: Vec<u8>,
    #[serde(default, deserialize_with = "number")]
    pub(super) create_revision: i64,
}

/// Answer to a read of a range of keys.
#[derive(Debug, Deserialize)]
pub(super) struct Range {
    #[serde(default)]
    pub(super) header: Header,
    #[serde(default)]
    pub(super) kvs: Vec<Pair>,
    #[serde(default)]
    pub(super) more: bool,
}

/// What happened to a key.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum EventKind {
    #[default]
    Put,
    Delete,
}

/// A change of a key.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    #[serde(default, rename = "type")]
    pub(super) kind: EventKind,
    pub(super) kv: Pair,
}

/// Changes of watched keys, or the state of the watch.
#[derive(Debug, Deserialize)]
pub(super) struct Watched {
    #[serde(default)]
    pub(super) header: Header,
    #[serde(default)]
    pub(super) canceled: bool,
    #[serde(default)]
    pub(super) cancel_reason: String,
    #[serde(default)]
    pub(super) events: Vec<Event>,
}

/// An answer of which nothing matters but that it came.
#[derive(Debug, Deserialize)]
pub(super) struct Done {}

/// Bytes as the gateway wants them.
pub(super) fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
    STANDARD.decode(text.as_bytes()).map_err(D::Error::custom)
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Plain(i64),
        Text(String),
    }
    match Number::deserialize(deserializer)? {
        Number::Plain(number) => Ok(number),
        Number::Text(text) => text.parse().map_err(D::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_as_text_or_plain_and_zeros_not_at_all() {
        let lease: Lease = serde_json::from_str(r#"{"ID":"7587","TTL":30}"#).expect("lease");
        assert_eq!((lease.id, lease.ttl), (7587, 30));
        let lease: Lease = serde_json::from_str(r#"{"header":{},"ID":"1"}"#).expect("lease");
        assert_eq!(lease.ttl, 0);
        assert!(serde_json::from_str::<Lease>(r#"{"ID":"x"}"#).is_err());
    }

    #[test]
    fn a_refusal_is_read_whichever_way_it_is_told() {
        for text in [r#"{"error":"gone","message":"gone","code":5}"#, r#"{"error":"gone","code":5}"#] {
            let refusal: Refusal = serde_json::from_str(text).expect("refusal");
            assert_eq!((refusal.reason(), refusal.code), ("gone", NOT_FOUND));
        }
    }

    #[test]
    fn a_watch_tells_puts_without_a_type() {
        let text = r#"{"result":{"header":{"revision":"7"},"events":[{"kv":{"key":"YQ==","value":"Yg=="}},{"type":"DELETE","kv":{"key":"YQ=="}}]}}"#;
        let watched: Streamed<Watched> = serde_json::from_str(text).expect("watched");
        let [put, delete] = &watched.result.events[..] else { panic!("two events") };
        assert_eq!((&put.kind, &put.kv.value[..]), (&EventKind::Put, &b"b"[..]));
        assert_eq!((&delete.kind, &delete.kv.key[..]), (&EventKind::Delete, &b"a"[..]));
        assert_eq!(watched.result.header.revision, 7);
    }
}
