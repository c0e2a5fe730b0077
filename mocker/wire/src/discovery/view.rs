//! What is known of a store, and those who watch it.
//!
//! A backend keeps one view per bucket. Each watcher has a task that compares the view with what it has told already and
//! sends the difference over a bounded channel: a slow watcher makes nobody wait, misses no final state, and what came and
//! went while it was busy costs nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{Bucket, Change, Key, Record, Watch};
use crate::limits::MAX_QUEUED_CHANGES;

/// Records of one bucket by path.
pub(super) type Records = BTreeMap<String, Arc<Record>>;

/// What is known of one bucket.
#[derive(Debug, Default)]
struct View {
    records: Records,
    /// Everything that was in the store at the beginning is known.
    loaded: bool,
}

/// What is known of a store.
#[derive(Debug, Default)]
pub(super) struct Views {
    instances: watch::Sender<View>,
    models: watch::Sender<View>,
    channels: watch::Sender<View>,
    sources: watch::Sender<View>,
}

impl Views {
    fn of(&self, bucket: Bucket) -> &watch::Sender<View> {
        match bucket {
            Bucket::Instances => &self.instances,
            Bucket::Models => &self.models,
            Bucket::EventChannels => &self.channels,
            Bucket::EventSources => &self.sources,
        }
    }

    /// A record is there; an equal one changes nothing.
    pub(super) fn put(&self, key: &Key, record: Arc<Record>) {
        self.of(key.bucket).send_if_modified(|view| {
            let changed = view.records.get(&key.path) != Some(&record);
            if changed {
                view.records.insert(key.path.clone(), record);
            }
            changed
        });
    }

    /// A record is no longer there.
    pub(super) fn remove(&self, key: &Key) {
        self.of(key.bucket).send_if_modified(|view| view.records.remove(&key.path).is_some());
    }

    /// All that the store has in this bucket is known from now on.
    pub(super) fn set_loaded(&self, bucket: Bucket) {
        self.of(bucket).send_if_modified(|view| !std::mem::replace(&mut view.loaded, true));
    }

    /// Tells the records whose path begins with `prefix`, until `ended` or the watch is dropped.
    pub(super) fn watch(&self, bucket: Bucket, prefix: &str, runtime: &Handle, ended: CancellationToken) -> Watch {
        let (sender, changes) = mpsc::channel(MAX_QUEUED_CHANGES);
        let watcher = Watcher { bucket, prefix: prefix.to_owned(), told: Records::new(), sender };
        let view = self.of(bucket).subscribe();
        runtime.spawn(async move { ended.run_until_cancelled(watcher.run(view)).await });
        Watch { changes }
    }
}

/// The task of one watch.
struct Watcher {
    bucket: Bucket,
    prefix: String,
    told: Records,
    sender: mpsc::Sender<Change>,
}

impl Watcher {
    /// Ends when the watch or the view is dropped.
    async fn run(mut self, mut view: watch::Receiver<View>) {
        let mut synced = false;
        loop {
            let (mut changes, loaded) = {
                let view = view.borrow_and_update();
                (self.difference(&view.records), view.loaded)
            };
            if loaded && !synced {
                synced = true;
                changes.push(Change::Synced);
            }
            for change in changes {
                if self.sender.send(change).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                alive = view.changed() => if alive.is_err() { return },
                () = self.sender.closed() => return,
            }
        }
    }

    /// What must be told so that `told` equals the view; then it does.
    fn difference(&mut self, records: &Records) -> Vec<Change> {
        let gone: Vec<_> = self.told.keys().filter(|path| !records.contains_key(*path)).cloned().collect();
        let mut changes = Vec::new();
        for path in gone {
            self.told.remove(&path);
            changes.push(Change::Removed(Key { bucket: self.bucket, path }));
        }
        let wanted = records.range(self.prefix.clone()..).take_while(|(path, _)| path.starts_with(&self.prefix));
        for (path, record) in wanted {
            if self.told.get(path).is_some_and(|told| Arc::ptr_eq(told, record) || told == record) {
                continue;
            }
            self.told.insert(path.clone(), Arc::clone(record));
            let key = Key { bucket: self.bucket, path: path.clone() };
            changes.push(Change::Put(key, Box::new(Record::clone(record))));
        }
        changes
    }
}
