//! The task of one handle that reads: what the store has, followed change by change.
//!
//! Every time the connection is made, everything is read and compared with what is known; only then are changes followed.
//! Continuing at the last revision would save that, but a store that lost its data may have reached the same revision
//! again with other contents.
//!
//! A store that comes back empty says nothing about the workers: they will write again. What it lost is believed for
//! one more life of a lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::client::{EtcdClient, Lines};
use super::message::{EventKind, Fault, Pair, Range, Streamed, Watched, base64};
use crate::discovery::backoff::Backoff;
use crate::discovery::view::Views;
use crate::discovery::{Bucket, DiscoveryError, Key, Record};
use crate::limits::ETCD_PAGE;

/// All keys begin with it.
const PREFIX: &str = "v1/";
/// The first key after all those.
const PREFIX_END: &str = "v10";

/// A stream that lasted so long did not fail for the same reason as the one before.
const SETTLED: Duration = Duration::from_secs(2);

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Nothing but the connection: its loss tells at once that the lease must be looked after.
    Connection,
    /// All records.
    Records,
}

/// What is known of a key.
#[derive(Debug)]
struct Known {
    /// When it was made; another number means that it went meanwhile.
    create_revision: i64,
    /// Hash of its value, so that a fault is told once.
    content: u64,
    /// The store lost it; gone then unless written again.
    doubtful_until: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Mirror {
    client: Arc<EtcdClient>,
    views: Arc<Views>,
    ttl: Duration,
    known: BTreeMap<Key, Known>,
    revision: i64,
}

impl Mirror {
    pub(super) fn new(client: Arc<EtcdClient>, views: Arc<Views>, ttl: Duration) -> Self {
        Self { client, views, ttl, known: BTreeMap::new(), revision: 0 }
    }

    /// Ends when the handle is dropped. Tells `checked` when the connection was lost or made.
    pub(super) async fn run(mut self, mut scope: watch::Receiver<Scope>, checked: Arc<Notify>) {
        let mut backoff = Backoff::default();
        loop {
            let wanted = *scope.borrow_and_update();
            let fault = match self.begin(wanted).await {
                Ok(mut lines) => {
                    if !backoff.is_first() {
                        checked.notify_one();
                    }
                    let begun = Instant::now();
                    let fault = tokio::select! {
                        fault = self.follow(&mut lines) => fault,
                        changed = scope.changed() => if changed.is_ok() { continue } else { return },
                    };
                    if begun.elapsed() >= SETTLED {
                        backoff.end();
                    }
                    fault
                }
                Err(fault) => fault,
            };
            if backoff.is_first() {
                tracing::warn!(error = %DiscoveryError::from(fault), "lost etcd; connecting again");
                checked.notify_one();
            }
            tokio::select! {
                () = sleep(backoff.next()) => {}
                () = gone(&mut scope) => return,
            }
            self.forget_doubtful();
        }
    }

    async fn begin(&mut self, scope: Scope) -> Result<Lines, Fault> {
        let request = match scope {
            Scope::Connection => json!({"key": base64(PREFIX)}),
            Scope::Records => {
                self.load().await?;
                let from = (self.revision + 1).to_string();
                json!({"key": base64(PREFIX), "range_end": base64(PREFIX_END), "start_revision": from})
            }
        };
        self.client.stream("/v3/watch", &json!({"create_request": request})).await
    }

    /// Reads everything, as of one revision.
    async fn load(&mut self) -> Result<(), Fault> {
        let mut pairs = BTreeMap::new();
        let mut revision = 0;
        let mut from = PREFIX.as_bytes().to_vec();
        loop {
            let page: Range = self.client.call("/v3/kv/range", &page_request(&from, revision)).await?;
            if revision == 0 {
                revision = page.header.revision;
            }
            if let Some(last) = page.kvs.last() {
                from.clone_from(&last.key);
                from.push(0);
            }
            let empty = page.kvs.is_empty();
            pairs.extend(page.kvs.into_iter().filter_map(|pair| key_of(&pair.key).map(|key| (key, pair))));
            if !page.more || empty {
                break;
            }
        }
        self.replace(pairs, revision);
        Ok(())
    }

    fn replace(&mut self, pairs: BTreeMap<Key, Pair>, revision: i64) {
        let made_again = |(key, pair): (&Key, &Pair)| {
            self.known.get(key).is_some_and(|known| known.create_revision != pair.create_revision)
        };
        let lost = revision < self.revision || pairs.iter().any(made_again);
        let missing: Vec<_> = self.known.keys().filter(|key| !pairs.contains_key(*key)).cloned().collect();
        for key in missing {
            let doubtful_until = self.known.get(&key).and_then(|known| known.doubtful_until);
            match self.known.get_mut(&key) {
                Some(known) if lost || doubtful_until.is_some() => {
                    known.doubtful_until = doubtful_until.or(Some(Instant::now() + self.ttl));
                }
                _ => self.remove(&key),
            }
        }
        for (key, pair) in pairs {
            self.put(&key, &pair);
        }
        self.revision = revision;
        for bucket in Bucket::ALL {
            self.views.set_loaded(bucket);
        }
    }

    /// Applies changes until the stream fails.
    async fn follow(&mut self, lines: &mut Lines) -> Fault {
        loop {
            let doubtful = self.known.values().filter_map(|known| known.doubtful_until).min();
            let next_doubt = doubtful.unwrap_or_else(|| Instant::now() + self.ttl);
            let watched = tokio::select! {
                watched = lines.next::<Streamed<Watched>>() => watched,
                () = sleep_until(next_doubt) => {
                    self.forget_doubtful();
                    continue;
                }
            };
            let watched = match watched {
                Ok(watched) => watched.result,
                Err(fault) => return fault,
            };
            if watched.canceled {
                return Fault::unreachable(self.client.endpoint(), watched.cancel_reason);
            }
            self.revision = self.revision.max(watched.header.revision);
            for event in watched.events {
                let Some(key) = key_of(&event.kv.key) else { continue };
                match event.kind {
                    EventKind::Put => self.put(&key, &event.kv),
                    EventKind::Delete => self.remove(&key),
                }
            }
        }
    }

    fn put(&mut self, key: &Key, pair: &Pair) {
        let content = xxhash_rust::xxh3::xxh3_64(&pair.value);
        let known = Known { create_revision: pair.create_revision, content, doubtful_until: None };
        let before = self.known.insert(key.clone(), known);
        if before.is_some_and(|before| before.content == content) {
            return;
        }
        match Record::parse(key, &pair.value) {
            Ok(record) => self.views.put(key, Arc::new(record)),
            Err(error) => {
                tracing::warn!(%error, "a discovery record is skipped");
                self.views.remove(key);
            }
        }
    }

    fn remove(&mut self, key: &Key) {
        self.known.remove(key);
        self.views.remove(key);
    }

    /// What a store lost and nobody has written again in time has gone.
    fn forget_doubtful(&mut self) {
        let now = Instant::now();
        let gone = |known: &Known| known.doubtful_until.is_some_and(|until| until <= now);
        let gone: Vec<_> = self.known.iter().filter(|(_, known)| gone(known)).map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.remove(&key);
        }
    }
}

/// Waits until the handle is dropped.
async fn gone(scope: &mut watch::Receiver<Scope>) {
    while scope.changed().await.is_ok() {}
}

/// Keys from `from` on, as of `revision` unless that is 0.
fn page_request(from: &[u8], revision: i64) -> Value {
    json!({
        "key": base64(from),
        "range_end": base64(PREFIX_END),
        "limit": ETCD_PAGE.to_string(),
        "revision": revision.to_string(),
    })
}

/// Keys that are in no bucket are somebody else's.
fn key_of(key: &[u8]) -> Option<Key> {
    std::str::from_utf8(key).ok().and_then(Key::parse)
}
