//! Who publishes KV events, and which router wants them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use dynosim_router::Target;
use dynosim_wire::Runtime;
use dynosim_wire::discovery::{Bucket, Change, ChannelRecord, Discovery, Record, SourceRecord, Watch};
use dynosim_wire::event::KV_EVENTS;
use dynosim_wire::request::RequestClient;
use tokio::task::{AbortHandle, JoinHandle};

use super::pool::KvRouter;
use super::source::Source;
use crate::config::NamespaceScope;
use crate::metrics::KvMetrics;

/// One task per publisher and router that wants its events; all end when this is dropped.
#[derive(Debug)]
pub(super) struct Feeds {
    book: Arc<Mutex<Book>>,
    follower: JoinHandle<()>,
}

#[derive(Debug)]
struct Book {
    client: RequestClient,
    runtime: Runtime,
    metrics: Arc<KvMetrics>,
    /// By the key's path without its bucket, which both records of a publisher share.
    channels: BTreeMap<String, ChannelRecord>,
    sources: BTreeMap<String, SourceRecord>,
    /// Routers by their workers.
    members: BTreeMap<u64, BTreeMap<u64, Arc<KvRouter>>>,
    /// By publisher and router.
    running: BTreeMap<(String, u64), Running>,
}

/// A task that reads events, for the records that it was made for.
#[derive(Debug)]
struct Running {
    channel: ChannelRecord,
    source: SourceRecord,
    task: AbortHandle,
}

impl Feeds {
    /// Follows the publishers in `scope` from now on.
    pub(super) fn start(
        discovery: &Discovery,
        scope: &NamespaceScope,
        client: &RequestClient,
        runtime: &Runtime,
        metrics: Arc<KvMetrics>,
    ) -> Self {
        let prefix = format!("namespace/{}", scope.key_prefix());
        let watches = [Bucket::EventChannels, Bucket::EventSources].map(|bucket| discovery.watch(bucket, &prefix));
        let book = Arc::new(Mutex::new(Book {
            client: client.clone(),
            runtime: runtime.clone(),
            metrics,
            channels: BTreeMap::new(),
            sources: BTreeMap::new(),
            members: BTreeMap::new(),
            running: BTreeMap::new(),
        }));
        // The handle lives as long as the watches, which end with it.
        let (shared, discovery) = (Arc::clone(&book), discovery.clone());
        let follower = tokio::spawn(async move {
            follow(&shared, watches).await;
            drop(discovery);
        });
        Self { book, follower }
    }

    /// These are a router's workers from now on.
    pub(super) fn settle(&self, router: &Arc<KvRouter>, workers: impl Iterator<Item = u64>) {
        let workers: BTreeSet<u64> = workers.collect();
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.members.retain(|worker, routers| {
            if !workers.contains(worker) {
                routers.remove(&router.number);
            }
            !routers.is_empty()
        });
        for worker in workers {
            book.members.entry(worker).or_default().insert(router.number, Arc::clone(router));
        }
        book.settle();
    }
}

impl Drop for Feeds {
    fn drop(&mut self) {
        self.follower.abort();
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        for running in std::mem::take(&mut book.running).into_values() {
            running.task.abort();
        }
        book.members.clear();
    }
}

async fn follow(book: &Mutex<Book>, [mut channels, mut sources]: [Watch; 2]) {
    loop {
        let change = tokio::select! {
            change = channels.next() => change,
            change = sources.next() => change,
        };
        let Some(change) = change else { return };
        let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
        if book.apply(change) {
            book.settle();
        }
    }
}

impl Book {
    /// Takes in a change; false if it concerns no KV events.
    fn apply(&mut self, change: Change) -> bool {
        match change {
            Change::Put(key, record) => match *record {
                Record::EventChannel(channel) if channel.topic == KV_EVENTS => {
                    self.channels.insert(key.path, channel);
                    true
                }
                Record::EventSource(source) if source.topic == KV_EVENTS => {
                    self.sources.insert(key.path, source);
                    true
                }
                _ => false,
            },
            Change::Removed(key) if key.bucket == Bucket::EventChannels => self.channels.remove(&key.path).is_some(),
            Change::Removed(key) => self.sources.remove(&key.path).is_some(),
            Change::Synced => false,
        }
    }

    /// Starts and ends tasks so that each wanted publisher is read once per router.
    fn settle(&mut self) {
        let Self { channels, sources, members, .. } = self;
        let wanted = |path: &str, router: u64, running: &Running| {
            let worker = running.source.metadata.worker.worker_id;
            channels.get(path) == Some(&running.channel)
                && sources.get(path) == Some(&running.source)
                && members.get(&worker).is_some_and(|routers| routers.contains_key(&router))
        };
        self.running.retain(|(path, router), running| {
            let stays = wanted(path, *router, running);
            if !stays {
                running.task.abort();
            }
            stays
        });
        for (path, source) in &self.sources {
            let Some(channel) = self.channels.get(path) else { continue };
            let worker = source.metadata.worker;
            for (number, router) in self.members.get(&worker.worker_id).into_iter().flatten() {
                let key = (path.clone(), *number);
                if self.running.contains_key(&key) {
                    continue;
                }
                let reader = Source::new(
                    Arc::clone(router),
                    Target { worker: worker.worker_id, rank: worker.dp_rank },
                    source.metadata.recovery_target.clone(),
                    self.client.clone(),
                    Arc::clone(&self.metrics),
                );
                let task = tokio::spawn(reader.follow(self.runtime.clone(), channel.clone())).abort_handle();
                self.running.insert(key, Running { channel: channel.clone(), source: source.clone(), task });
            }
        }
    }
}
