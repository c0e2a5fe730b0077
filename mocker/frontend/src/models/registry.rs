//! Follows discovery and says which models are served.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use dynosim_wire::discovery::{Bucket, Change, Discovery, EndpointRecord, Watch};
use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::books::{Books, Card, GroupKey, Members};
use super::group::{Group, Pools};
use super::texts::Texts;
use super::{Entry, Models};
use crate::config::NamespaceScope;
use crate::kv::{Kv, KvPools};
use crate::metrics::{Metrics, ModelLimits};

/// Models that are remembered after their last worker has gone, so that requests for them are told to come back.
const MAX_REMEMBERED_MODELS: usize = 64;
/// Changes that are taken in before the models are told anew.
const MAX_CHANGES_AT_ONCE: usize = 1024;

/// A first view of discovery is shown after that long, even if files of its models could not be read yet.
const FIRST_VIEW_PATIENCE: Duration = Duration::from_secs(5);

/// Instances that are there, in order of their keys.
pub(crate) type Instances = Arc<RwLock<Arc<[EndpointRecord]>>>;

/// The task that follows discovery; ends when dropped.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) models: Arc<Models>,
    instances: Instances,
    /// Everything that was there at the beginning is known, and models that were there can be asked.
    knows: Arc<AtomicBool>,
    /// How many models are ready.
    ready: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Registry {
    /// Follows `discovery` from now on.
    pub(crate) fn start(
        discovery: &Discovery,
        scope: &NamespaceScope,
        min_initial_workers: usize,
        metrics: Arc<Metrics>,
        kv: Option<Arc<Kv>>,
    ) -> Self {
        let prefix = scope.key_prefix();
        let watches = [Bucket::Instances, Bucket::Models].map(|bucket| discovery.watch(bucket, &prefix));
        let (models, instances) = (Arc::new(Models::default()), Instances::new(RwLock::new(Arc::from([]))));
        let (told_ready, ready) = watch::channel(0);
        let knows = Arc::new(AtomicBool::new(false));
        let follower = Follower {
            told_ready,
            scope: scope.clone(),
            models: Arc::clone(&models),
            instances: Arc::clone(&instances),
            unsynced: watches.len(),
            patience: None,
            knows: Arc::clone(&knows),
            books: Books::default(),
            texts: Texts::default(),
            groups: BTreeMap::new(),
            admitted: BTreeSet::new(),
            ready: BTreeSet::new(),
            min_initial_workers,
            metrics,
            kv,
        };
        // The handle lives as long as the watches, which end with it.
        let discovery = discovery.clone();
        let task = tokio::spawn(async move {
            follower.follow(watches).await;
            drop(discovery);
        });
        Self { models, instances, knows, ready, task }
    }

    /// Everything that was there at the beginning is known, and models that were there can be asked.
    pub(crate) fn knows(&self) -> bool {
        self.knows.load(Relaxed)
    }

    /// How many models are ready, now and later.
    pub(crate) fn ready(&self) -> watch::Receiver<usize> {
        self.ready.clone()
    }

    /// Instances that are there.
    pub(crate) fn instances(&self) -> Arc<[EndpointRecord]> {
        Arc::clone(&self.instances.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the task works on.
struct Follower {
    scope: NamespaceScope,
    models: Arc<Models>,
    instances: Instances,
    /// Watches that have not told all that was there.
    unsynced: usize,
    /// When the first view is shown at the latest, once all watches are in step.
    patience: Option<Instant>,
    knows: Arc<AtomicBool>,
    books: Books,
    texts: Texts,
    /// Every group that was made and is not forgotten, also those without workers now.
    groups: BTreeMap<GroupKey, Arc<Group>>,
    /// Groups that have had enough workers at once.
    admitted: BTreeSet<GroupKey>,
    /// Models that were told of as ready.
    ready: BTreeSet<Arc<str>>,
    told_ready: watch::Sender<usize>,
    min_initial_workers: usize,
    metrics: Arc<Metrics>,
    /// With KV-aware routing.
    kv: Option<Arc<Kv>>,
}

impl Follower {
    /// Takes a change of what is in scope; true if it changes what can be served.
    fn apply(&mut self, change: Change) -> bool {
        let (Change::Put(key, _) | Change::Removed(key)) = &change else {
            self.unsynced = self.unsynced.saturating_sub(1);
            return true;
        };
        let namespace = key.path.split('/').next().unwrap_or_default();
        self.scope.covers(namespace) && self.books.apply(change)
    }

    async fn follow(mut self, [mut instances, mut models]: [Watch; 2]) {
        loop {
            let patience = self.patience.filter(|_| !self.knows.load(Relaxed));
            let change = tokio::select! {
                change = instances.next() => change,
                change = models.next() => change,
                () = self.texts.loaded() => {
                    self.tell();
                    continue;
                }
                () = sleep_until(patience.unwrap_or_else(Instant::now)), if patience.is_some() => {
                    self.knows.store(true, Relaxed);
                    continue;
                }
            };
            let Some(change) = change else { return };
            let mut told = self.apply(change);
            for _ in 0..MAX_CHANGES_AT_ONCE {
                let next = instances.next().now_or_never().or_else(|| models.next().now_or_never());
                let Some(Some(change)) = next else { break };
                told |= self.apply(change);
            }
            if told {
                self.tell();
            }
        }
    }

    /// Says anew who is there.
    fn tell(&mut self) {
        self.books.settle();
        let groups = &self.groups;
        let members = self.books.groups(|key| groups.get(key).map(|group| group.identity.clone()));
        let empty: Vec<_> = groups.keys().filter(|key| !members.contains_key(*key)).cloned().collect();
        for (key, members) in members {
            let old = self.groups.get(&key);
            if let Some(replaced) = old.filter(|group| group.identity != members.card.identity) {
                // Requests of the old kind end where they are; those of the new kind wait until its files are read.
                replaced.set_pools(Pools { missing: Some("its workers were replaced".to_owned()), ..Pools::default() });
            }
            let Some(text) = self.texts.get(&members.card.identity, &members.card.said) else { continue };
            let kept = old.filter(|group| group.identity == members.card.identity).cloned();
            let group = kept.unwrap_or_else(|| {
                let routers = self.kv.as_ref().and_then(|kv| routers(kv, members.card));
                Arc::new(Group::new(Arc::clone(&key.0), members.card, text, self.metrics.model(&key.0), routers))
            });
            self.admitted.extend((members.workers.len() >= self.min_initial_workers).then(|| key.clone()));
            group.set_pools(pools_of(&group, &members, self.admitted.contains(&key)));
            group.metrics.set_limits(&limits(members.card));
            self.groups.insert(key, group);
        }
        for key in empty {
            if let Some(group) = self.groups.get(&key) {
                let nobody = Pools::sort(&[], |_| true, &group.pools());
                group.set_pools(nobody);
            }
        }
        self.forget();
        self.publish();
        // Last: who sees an instance go on `/health` can rely on it getting no more requests.
        let there: Arc<[EndpointRecord]> = self.books.instances.values().cloned().collect();
        *self.instances.write().unwrap_or_else(PoisonError::into_inner) = there;
        if self.unsynced == 0 {
            self.patience.get_or_insert_with(|| Instant::now() + FIRST_VIEW_PATIENCE);
            if self.texts.is_idle() {
                self.knows.store(true, Relaxed);
            }
        }
    }

    /// Lets go of what nobody needs any more.
    fn forget(&mut self) {
        let gone = |group: &Arc<Group>| group.pools().generating() == 0 && group.pools().prefill.is_empty();
        let mut excess = self.groups.values().filter(|group| gone(group)).count().saturating_sub(MAX_REMEMBERED_MODELS);
        let (groups, admitted) = (&mut self.groups, &mut self.admitted);
        groups.retain(|key, group| {
            let forgotten = excess > 0 && gone(group);
            if forgotten {
                excess -= 1;
                admitted.remove(key);
            }
            !forgotten
        });
        let (books, groups) = (&self.books, &self.groups);
        let known = |identity: &str| groups.values().any(|group| group.identity == identity);
        self.texts.keep(|identity| books.has_identity(identity) || known(identity));
    }

    fn publish(&mut self) {
        let before = self.models.entries();
        let mut entries: BTreeMap<Arc<str>, Entry> = BTreeMap::new();
        for (key, group) in &self.groups {
            let entry = entries.entry(Arc::clone(&key.0)).or_insert_with(|| Entry {
                created_s: before.get(&key.0).map_or_else(|| dynosim_wire::time::unix_s() as u64, |old| old.created_s),
                context_length: 0,
                groups: Vec::new(),
            });
            entry.context_length = entry.context_length.max(group.context_length);
            entry.groups.push(Arc::clone(group));
        }
        for (name, entry) in &entries {
            let is = entry.is_ready();
            let was = if is { !self.ready.insert(Arc::clone(name)) } else { self.ready.remove(name) };
            entry.groups.iter().for_each(|group| group.metrics.set_ready(is));
            match (was, is) {
                (false, true) => tracing::info!(model = %name, "model is ready"),
                (true, false) => tracing::warn!(model = %name, reason = %reason(entry), "model is not ready any more"),
                _ => {}
            }
        }
        self.models.publish(entries);
        self.told_ready.send_replace(self.ready.len());
    }
}

/// The routers of a model. A card without a block size is that of an engine whose blocks are tokens. None only if settings
/// that were good for one block size are not for another; then workers take turns.
fn routers(kv: &Arc<Kv>, card: &Card) -> Option<(Arc<Kv>, KvPools)> {
    match kv.pools(card.said.kv_cache_block_size.max(1)) {
        Ok(routers) => Some((Arc::clone(kv), routers)),
        Err(error) => {
            tracing::error!(%error, "no KV router for the model");
            None
        }
    }
}

fn reason(entry: &Entry) -> String {
    entry.groups.iter().find_map(|group| group.pools().missing.clone()).unwrap_or_default()
}

fn pools_of(group: &Group, members: &Members<'_>, admitted: bool) -> Pools {
    let before = group.pools();
    if admitted {
        return members.pools(&before);
    }
    let missing = format!("it waits for its first workers: {} are there", members.workers.len());
    Pools { missing: Some(missing), ..Pools::default() }
}

fn limits(card: &Card) -> ModelLimits {
    let runtime = &card.said.runtime_config;
    ModelLimits {
        context_length: card.said.context_length,
        kv_cache_block_size: card.said.kv_cache_block_size,
        migration_limit: card.said.migration_limit,
        total_kv_blocks: runtime.total_kv_blocks,
        max_num_seqs: runtime.max_num_seqs,
        max_num_batched_tokens: runtime.max_num_batched_tokens,
    }
}
