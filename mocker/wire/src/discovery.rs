//! Who is there: records of endpoints, models and event channels, in one of several stores.

mod backoff;
mod etcd;
mod file;
mod kubernetes;
mod mem;
mod orders;
mod record;
mod view;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;

pub use kubernetes::{NameError, PodIdentity, PodUnit, check_name};
pub use mem::MemStore;
pub use record::{
    Bucket, ChannelRecord, ChannelTransport, EndpointRecord, Key, ModelRecord, Record, RecordError, Scope,
    SourceMetadata, SourceRecord, Transport, WorkerRef,
};

use crate::runtime::DiscoveryConfig;

/// A store that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// Files.
    #[error("discovery folder {path}: {source}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The etcd server.
    #[error("etcd {endpoint}: {reason}")]
    Etcd {
        /// Which.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// The Kubernetes API.
    #[error("Kubernetes {server}: {reason}")]
    Kubernetes {
        /// Its address.
        server: String,
        /// Why.
        reason: String,
    },
    /// The handle was closed, so nothing can be put any more.
    #[error("discovery is closed")]
    Closed,
    /// A record of ours that cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// A change of what is in a bucket.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A record is new or has changed.
    Put(Key, Box<Record>),
    /// A record has gone, by its owner's word or because its owner is dead.
    Removed(Key),
    /// Everything that was there when the watch began has been told.
    Synced,
}

/// Changes of one bucket from now on, after all that is there already. Never ends while the [`Discovery`] lives: a store
/// that went away is connected to again, and what changed meanwhile is told as changes.
#[derive(Debug)]
pub struct Watch {
    /// Filled by the backend's task, which ends when the watch is dropped.
    pub(crate) changes: mpsc::Receiver<Change>,
}

impl Watch {
    /// The next change; none once the store is closed.
    pub async fn next(&mut self) -> Option<Change> {
        self.changes.recv().await
    }
}

pub(crate) type Done<'a, T> = Pin<Box<dyn Future<Output = Result<T, DiscoveryError>> + Send + 'a>>;

/// One kind of store. Everything that is put belongs to the handle and goes with it.
pub(crate) trait Backend: Send + Sync + std::fmt::Debug {
    /// The id that instances of this handle have: the lease in etcd, a hash of the object's name in Kubernetes, else a
    /// random number.
    fn instance_id(&self) -> u64;
    /// Writes records of this handle in this order, or all at once where the store can; from then on they are kept alive
    /// (and written again if the store lost them).
    fn put<'a>(&'a self, records: &'a [(Key, &'a Record)]) -> Done<'a, ()>;
    /// Removes a record of this handle.
    fn remove<'a>(&'a self, key: &'a Key) -> Done<'a, ()>;
    /// Watches the keys of a bucket that begin with `prefix`.
    fn watch(&self, bucket: Bucket, prefix: &str) -> Watch;
    /// Removes all records of this handle.
    fn close(&self) -> Done<'_, ()>;
}

/// A new identity: random, above zero, and below 2⁶³ so that readers with signed numbers cope.
fn random_id() -> u64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    ((high ^ low) >> 1).max(1)
}

/// A handle on a store: one identity (instance id, lease). Clones share it.
#[derive(Clone, Debug)]
pub struct Discovery {
    backend: Arc<dyn Backend>,
}

impl Discovery {
    /// Connects; every call makes a new identity.
    pub async fn connect(config: &DiscoveryConfig) -> Result<Self, DiscoveryError> {
        let backend: Arc<dyn Backend> = match config {
            DiscoveryConfig::Mem(store) => Arc::new(mem::MemBackend::new(store)),
            DiscoveryConfig::File { root, ttl } => Arc::new(file::FileBackend::open(root, *ttl).await?),
            DiscoveryConfig::Etcd { endpoints, ttl } => Arc::new(etcd::EtcdBackend::connect(endpoints, *ttl).await?),
            DiscoveryConfig::Kubernetes { pod, kubeconfig } => {
                Arc::new(kubernetes::KubernetesBackend::find(pod, kubeconfig.as_deref()).await?)
            }
        };
        Ok(Self { backend })
    }

    /// The id that instances of this handle have.
    pub fn instance_id(&self) -> u64 {
        self.backend.instance_id()
    }

    /// Writes a record under its own key; it lives until removed, closed, or this process dies.
    pub async fn put(&self, record: &Record) -> Result<Key, DiscoveryError> {
        let key = record.key();
        self.backend.put(&[(key.clone(), record)]).await?;
        Ok(key)
    }

    /// As [`Self::put`], for several in this order; a store that can shows them to others at once.
    pub async fn put_all(&self, records: &[Record]) -> Result<(), DiscoveryError> {
        let keyed: Vec<_> = records.iter().map(|record| (record.key(), record)).collect();
        self.backend.put(&keyed).await
    }

    /// Removes a record that this handle has put.
    pub async fn remove(&self, key: &Key) -> Result<(), DiscoveryError> {
        self.backend.remove(key).await
    }

    /// Watches the records of a bucket whose path begins with `prefix` (`""`: all).
    pub fn watch(&self, bucket: Bucket, prefix: &str) -> Watch {
        self.backend.watch(bucket, prefix)
    }

    /// Removes everything that this handle has put; it is of no use afterwards.
    pub async fn close(&self) -> Result<(), DiscoveryError> {
        self.backend.close().await
    }
}
