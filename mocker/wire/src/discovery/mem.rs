//! Records of one process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::view::Views;
use super::{Backend, Bucket, DiscoveryError, Done, Key, Record, Watch, random_id};

/// Records that live in this process. Clones share them.
#[derive(Clone, Debug)]
pub struct MemStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    views: Views,
    /// Instance id of the handle that wrote a record last: only that handle takes it away.
    owners: Mutex<BTreeMap<Key, u64>>,
}

impl Default for MemStore {
    fn default() -> Self {
        let views = Views::default();
        for bucket in Bucket::ALL {
            views.set_loaded(bucket);
        }
        Self { shared: Arc::new(Shared { views, owners: Mutex::default() }) }
    }
}

impl Shared {
    fn put(&self, owner: u64, key: &Key, record: &Record) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.insert(key.clone(), owner);
        self.views.put(key, Arc::new(record.clone()));
    }

    /// Removes the records of `owner` that `chosen` picks.
    fn remove(&self, owner: u64, chosen: impl Fn(&Key) -> bool) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|key, of| {
            let removed = *of == owner && chosen(key);
            if removed {
                self.views.remove(key);
            }
            !removed
        });
    }
}

/// One handle on a [`MemStore`].
#[derive(Debug)]
pub(crate) struct MemBackend {
    shared: Arc<Shared>,
    instance_id: u64,
    runtime: Handle,
    /// Ends the watches of this handle, though the store lives on.
    closed: CancellationToken,
}

impl MemBackend {
    pub(crate) fn new(store: &MemStore) -> Self {
        Self {
            shared: Arc::clone(&store.shared),
            instance_id: random_id(),
            runtime: Handle::current(),
            closed: CancellationToken::new(),
        }
    }

    fn end(&self) {
        self.closed.cancel();
        self.shared.remove(self.instance_id, |_| true);
    }
}

impl Drop for MemBackend {
    fn drop(&mut self) {
        self.end();
    }
}

impl Backend for MemBackend {
    fn instance_id(&self) -> u64 {
        self.instance_id
    }

    fn put<'a>(&'a self, records: &'a [(Key, &'a Record)]) -> Done<'a, ()> {
        Box::pin(async move {
            if self.closed.is_cancelled() {
                return Err(DiscoveryError::Closed);
            }
            for (key, record) in records {
                self.shared.put(self.instance_id, key, record);
            }
            Ok(())
        })
    }

    fn remove<'a>(&'a self, key: &'a Key) -> Done<'a, ()> {
        Box::pin(async move {
            self.shared.remove(self.instance_id, |other| other == key);
            Ok(())
        })
    }

    fn watch(&self, bucket: Bucket, prefix: &str) -> Watch {
        self.shared.views.watch(bucket, prefix, &self.runtime, self.closed.clone())
    }

    fn close(&self) -> Done<'_, ()> {
        Box::pin(async move {
            self.end();
            Ok(())
        })
    }
}
