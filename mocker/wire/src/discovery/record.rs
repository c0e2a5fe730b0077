//! What is in discovery, as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::card::ModelCard;
use crate::codec::Codec;
use crate::endpoint::EndpointId;

/// Kinds of records; each has a folder of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// Endpoints of instances.
    Instances,
    /// Model cards.
    Models,
    /// Sockets or subjects that events come from.
    EventChannels,
    /// Publishers of KV events with the worker that they speak for.
    EventSources,
}

impl Bucket {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Instances, Self::Models, Self::EventChannels, Self::EventSources];

    /// The first part of its keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instances => "v1/instances",
            Self::Models => "v1/mdc",
            Self::EventChannels => "v1/event_channels",
            Self::EventSources => "v1/event_sources",
        }
    }
}

/// Where a record is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its kind.
    pub bucket: Bucket,
    /// The rest of its name: `namespace/component/endpoint/instance id in hex`.
    pub path: String,
}

impl Key {
    /// Reads `v1/instances/…`; none if it is in no bucket.
    pub fn parse(text: &str) -> Option<Self> {
        let in_bucket = |bucket: Bucket| text.strip_prefix(bucket.name())?.strip_prefix('/').map(|path| (bucket, path));
        let (bucket, path) = Bucket::ALL.into_iter().find_map(in_bucket)?;
        (!path.is_empty()).then(|| Self { bucket, path: path.to_owned() })
    }

    /// The instance or publisher that it names; none if there is no hexadecimal number in that place.
    pub fn instance_id(&self) -> Option<u64> {
        let mut parts = self.path.split('/');
        let id = match self.bucket {
            // After namespace, component and endpoint; further models of an instance have an ending.
            Bucket::Instances | Bucket::Models => parts.nth(3),
            Bucket::EventChannels | Bucket::EventSources => parts.next_back(),
        };
        id.filter(|id| id.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|id| u64::from_str_radix(id, 16).ok())
    }
}

/// `v1/instances/dynamo/backend/generate/1a2b`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket.name(), self.path)
    }
}

/// Where an endpoint takes requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// `host:port/<instance hex>/<namespace>/<component>/<endpoint>`.
    Tcp(String),
    /// A NATS subject.
    NatsTcp(String),
}

/// An endpoint of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointRecord {
    /// Component.
    pub component: String,
    /// Endpoint name.
    pub endpoint: String,
    /// Namespace.
    pub namespace: String,
    /// Whose.
    pub instance_id: u64,
    /// Where it takes requests.
    pub transport: Transport,
    /// `cuda` or `cpu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_type: Option<String>,
    /// Encoding of its payloads.
    #[serde(default)]
    pub request_plane_codec: Codec,
}

impl EndpointRecord {
    /// Its three names.
    pub fn id(&self) -> EndpointId {
        EndpointId::new(&self.namespace, &self.component, &self.endpoint)
    }
}

/// A model that an instance serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRecord {
    /// Namespace.
    pub namespace: String,
    /// Component.
    pub component: String,
    /// Endpoint name.
    pub endpoint: String,
    /// Whose.
    pub instance_id: u64,
    /// The card.
    pub card_json: ModelCard,
    /// Ending of its key, for further models of an instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_suffix: Option<String>,
}

impl ModelRecord {
    /// Endpoint that serves it.
    pub fn endpoint_id(&self) -> EndpointId {
        EndpointId::new(&self.namespace, &self.component, &self.endpoint)
    }
}

/// What the events of a channel are about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Scope {
    /// All of a namespace.
    Namespace {
        /// Which.
        namespace: String,
    },
    /// One component.
    Component {
        /// Namespace.
        namespace: String,
        /// Component.
        component: String,
    },
    /// One endpoint.
    Endpoint {
        /// Which.
        endpoint: EndpointId,
    },
}

/// Where the events of a publisher can be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "config")]
pub enum ChannelTransport {
    /// A PUB socket.
    Zmq {
        /// `tcp://host:port`.
        endpoint: String,
    },
    /// A NATS server.
    Nats {
        /// What precedes the topic in the subject.
        subject_prefix: String,
    },
}

/// A publisher of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRecord {
    /// What its events are about.
    pub scope: Scope,
    /// `kv-events`, `kv_metrics`, `forward-pass-metrics`, `active_sequences_events`.
    pub topic: String,
    /// The publisher, at most 2⁵³.
    pub instance_id: u64,
    /// Where its events can be had.
    pub transport: ChannelTransport,
}

/// A rank of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkerRef {
    /// Its instance id.
    pub worker_id: u64,
    /// Rank.
    pub dp_rank: u32,
}

/// Whose KV cache a publisher of events speaks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceMetadata {
    /// Endpoint whose requests the cache serves.
    pub kv_state_endpoint: EndpointId,
    /// Rank of a worker.
    pub worker: WorkerRef,
    /// The publisher.
    pub publisher_id: u64,
    /// Endpoint that gives missed events again; without it a gap cannot be closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_target: Option<EndpointRecord>,
}

/// A publisher of KV events with the worker that it speaks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// What its events are about.
    pub scope: Scope,
    /// `kv-events`.
    pub topic: String,
    /// The publisher.
    pub publisher_id: u64,
    /// For whom it speaks.
    pub metadata: SourceMetadata,
}

/// A record of any kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Record {
    /// An endpoint of an instance.
    Endpoint(EndpointRecord),
    /// A model that an instance serves.
    Model(Box<ModelRecord>),
    /// A publisher of events.
    EventChannel(ChannelRecord),
    /// A publisher of KV events with the worker that it speaks for.
    EventSource(SourceRecord),
}

/// A record that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("discovery record {key}: {reason}")]
pub struct RecordError {
    /// Where.
    pub key: String,
    /// Why.
    pub reason: String,
}

impl Scope {
    /// As in keys.
    pub fn path(&self) -> String {
        match self {
            Self::Namespace { namespace } => format!("namespace/{namespace}"),
            Self::Component { namespace, component } => format!("namespace/{namespace}/component/{component}"),
            Self::Endpoint { endpoint } => endpoint.scope('/'),
        }
    }
}

impl Record {
    /// Where it belongs.
    pub fn key(&self) -> Key {
        let event = |bucket, scope: &Scope, topic: &str, publisher: u64| Key {
            bucket,
            path: format!("{}/topic/{topic}/{publisher:x}", scope.path()),
        };
        match self {
            Self::Endpoint(record) => {
                Key { bucket: Bucket::Instances, path: format!("{}/{:x}", record.id().path(), record.instance_id) }
            }
            Self::Model(record) => {
                let suffix = record.model_suffix.as_ref().map(|suffix| format!("/{suffix}")).unwrap_or_default();
                let path = format!("{}/{:x}{suffix}", record.endpoint_id().path(), record.instance_id);
                Key { bucket: Bucket::Models, path }
            }
            Self::EventChannel(record) => {
                event(Bucket::EventChannels, &record.scope, &record.topic, record.instance_id)
            }
            Self::EventSource(record) => event(Bucket::EventSources, &record.scope, &record.topic, record.publisher_id),
        }
    }

    /// Reads the value of a key.
    pub fn parse(key: &Key, value: &[u8]) -> Result<Self, RecordError> {
        let bad = |reason: String| RecordError { key: key.to_string(), reason };
        check_size(value).map_err(bad)?;
        let record: Self = serde_json::from_slice(value).map_err(|error| bad(error.to_string()))?;
        record.check_place(key).map_err(bad)?;
        Ok(record)
    }

    /// A record must be of the kind and the instance that its key names.
    fn check_place(&self, key: &Key) -> Result<(), String> {
        let (bucket, id) = match self {
            Self::Endpoint(record) => (Bucket::Instances, record.instance_id),
            Self::Model(record) => (Bucket::Models, record.instance_id),
            Self::EventChannel(record) => (Bucket::EventChannels, record.instance_id),
            Self::EventSource(record) => (Bucket::EventSources, record.publisher_id),
        };
        if key.bucket != bucket {
            return Err(format!("a record of {} is in {}", bucket.name(), key.bucket.name()));
        }
        let named = key.instance_id().ok_or("the key names no instance in hex")?;
        if named == id { Ok(()) } else { Err(format!("the key names instance {named:x}, the value {id:x}")) }
    }

    /// Its value, for stores that keep JSON.
    pub(crate) fn to_value(&self) -> Result<serde_json::Value, RecordError> {
        self.to_json()?;
        let bad = |error: serde_json::Error| RecordError { key: self.key().to_string(), reason: error.to_string() };
        serde_json::to_value(self).map_err(bad)
    }

    /// Its value as text.
    pub fn to_json(&self) -> Result<Vec<u8>, RecordError> {
        let bad = |reason: String| RecordError { key: self.key().to_string(), reason };
        let value = serde_json::to_vec(self).map_err(|error| bad(error.to_string()))?;
        check_size(&value).map_err(bad)?;
        Ok(value)
    }
}

/// Readers skip what is larger, so it must not be written either.
fn check_size(value: &[u8]) -> Result<(), String> {
    let (size, allowed) = (value.len(), crate::limits::MAX_RECORD_BYTES);
    if size > allowed { Err(format!("{size} bytes, {allowed} are allowed")) } else { Ok(()) }
}

#[cfg(test)]
pub(super) mod tests;
