//! Namespaces that an operator of their own looks after: it holds a lease there, and an operator of the whole cluster keeps away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::{Instant, interval};

use super::queue::Sender;
use super::world::World;

/// Name of the lease, as published.
pub const LEASE: &str = "dynamo-operator-namespace-scope";
/// If a lease does not say how long it lasts.
const USUAL: Duration = Duration::from_secs(30);
/// How often it is looked for leases that are over.
const TICK: Duration = Duration::from_secs(1);

/// A lease as it was seen last.
#[derive(Debug)]
struct Sight {
    renewed: Option<jiff::Timestamp>,
    since: Instant,
    duration: Duration,
}

/// Namespaces that others look after.
#[derive(Debug, Default)]
pub struct Restricted(Mutex<BTreeMap<String, Sight>>);

impl Restricted {
    /// Others look after this namespace.
    pub fn has(&self, namespace: &str) -> bool {
        let sights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sights.get(namespace).is_some_and(|sight| sight.since.elapsed() < sight.duration)
    }

    fn see(&self, lease: &Lease) {
        let namespace = lease.metadata.namespace.clone().unwrap_or_default();
        let spec = lease.spec.clone().unwrap_or_default();
        let mut sights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spec.holder_identity.as_deref().unwrap_or_default().is_empty() {
            sights.remove(&namespace);
            return;
        }
        let renewed = spec.renew_time.map(|time| time.0);
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let duration = seconds.map_or(USUAL, Duration::from_secs);
        match sights.get_mut(&namespace) {
            Some(sight) if sight.renewed == renewed => {}
            _ => drop(sights.insert(namespace, Sight { renewed, since: Instant::now(), duration })),
        }
    }

    /// Namespaces whose leases are over.
    fn over(&self) -> Vec<String> {
        let sights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = |(_, sight): &(&String, &Sight)| sight.since.elapsed() >= sight.duration;
        sights.iter().filter(over).map(|(namespace, _)| namespace.clone()).collect()
    }

    fn forget(&self, namespaces: impl IntoIterator<Item = String>) {
        let mut sights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for namespace in namespaces {
            sights.remove(&namespace);
        }
    }

    fn namespaces(&self) -> BTreeSet<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Follows the leases; `listed` is told when all were seen once. Graphs of namespaces that nobody looks after any more are
    /// asked for.
    pub async fn follow(self: Arc<Self>, client: Client, world: Arc<World>, queue: Sender, listed: Arc<Notify>) {
        let config = watcher::Config::default().fields(&format!("metadata.name={LEASE}"));
        let mut events = watcher(Api::<Lease>::all(client), config).default_backoff().boxed();
        let mut ticks = interval(TICK);
        let mut fresh = BTreeSet::new();
        loop {
            let mut freed = Vec::new();
            tokio::select! {
                _ = ticks.tick() => {
                    // A lease that is over stays in sight, so that the same renewal does not count twice.
                    freed.extend(self.over().into_iter().filter(|namespace| fresh.remove(namespace)));
                }
                event = events.next() => match event {
                    Some(Ok(Event::Init)) => fresh.clear(),
                    Some(Ok(Event::InitApply(lease) | Event::Apply(lease))) => {
                        self.see(&lease);
                        let namespace = lease.metadata.namespace.unwrap_or_default();
                        if self.has(&namespace) {
                            fresh.insert(namespace);
                        } else if fresh.remove(&namespace) {
                            freed.push(namespace);
                        }
                    }
                    Some(Ok(Event::InitDone)) => {
                        freed.extend(self.namespaces().into_iter().filter(|namespace| !fresh.contains(namespace)));
                        listed.notify_one();
                    }
                    Some(Ok(Event::Delete(lease))) => {
                        let namespace = lease.metadata.namespace.unwrap_or_default();
                        fresh.remove(&namespace);
                        self.forget([namespace.clone()]);
                        freed.push(namespace);
                    }
                    Some(Err(error)) => tracing::warn!(%error, "leases of namespaces cannot be watched, trying again"),
                    None => return,
                },
            }
            for namespace in freed {
                tracing::info!(namespace, "no other operator looks after this namespace any more");
                queue.all(world.graphs_of(&namespace));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::advance;

    use super::*;

    fn lease(namespace: &str, renewed: &str, holder: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"name": LEASE, "namespace": namespace},
            "spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 30},
        }))
        .expect("a lease")
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_is_left_alone_until_its_lease_was_not_renewed_for_its_duration() {
        let restricted = Restricted::default();
        restricted.see(&lease("n", "2026-12-01T00:00:00.000000Z", "other"));
        assert!(restricted.has("n") && !restricted.has("m"));
        advance(Duration::from_secs(20)).await;
        restricted.see(&lease("n", "2026-12-01T00:00:20.000000Z", "other"));
        advance(Duration::from_secs(20)).await;
        assert!(restricted.has("n"));
        // The same again is no renewal.
        restricted.see(&lease("n", "2026-12-01T00:00:20.000000Z", "other"));
        advance(Duration::from_secs(11)).await;
        assert!(!restricted.has("n"));
        assert_eq!(restricted.over(), ["n"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_nobody_holds_restricts_nothing() {
        let restricted = Restricted::default();
        restricted.see(&lease("n", "2026-12-01T00:00:00.000000Z", "other"));
        restricted.see(&lease("n", "2026-12-01T00:00:00.000000Z", ""));
        assert!(!restricted.has("n"));
    }
}
