//! Objects of one kind, listed and then watched for as long as anybody wants to know.
//!
//! A watch ends every minute and goes on where it was. After a failure everything is listed again: going on would save
//! that, but a store that was restored may have reached the same version with other contents.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::time::{Instant, sleep_until};

use super::cluster::{Cluster, Fault};
use crate::discovery::backoff::Backoff;

/// The server ends a watch after that many seconds, and a server that does not is not there any more: a connection that
/// died without a word is noticed.
const WATCH_S: u32 = 60;
/// What lasted so long did not fail for the same reason as the time before.
const SETTLED: Duration = Duration::from_secs(2);

type Events = BoxStream<'static, watcher::Result<Event<DynamicObject>>>;

/// Follows objects; connects again as often as needed.
pub(super) struct Follower {
    cluster: Cluster,
    api: Api<DynamicObject>,
    config: watcher::Config,
    events: Option<Events>,
    begun: Instant,
    /// Not before that.
    again: Instant,
    backoff: Backoff,
    /// Nobody needs to hear of it if this account may not look.
    if_allowed: bool,
}

impl Follower {
    pub(super) fn new(cluster: &Cluster, api: Api<DynamicObject>, config: watcher::Config) -> Self {
        let (config, now) = (config.timeout(WATCH_S), Instant::now());
        let cluster = cluster.clone();
        Self {
            cluster,
            api,
            config,
            events: None,
            begun: now,
            again: now,
            backoff: Backoff::default(),
            if_allowed: false,
        }
    }

    /// Says nothing if this account may not look.
    pub(super) fn if_allowed(self) -> Self {
        Self { if_allowed: true, ..self }
    }

    /// The next event, or why there is none; then the next call waits and begins with a list. May be dropped and called
    /// again at any time.
    pub(super) async fn next(&mut self) -> Result<Event<DynamicObject>, Fault> {
        if self.events.is_none() {
            sleep_until(self.again).await;
            self.begun = Instant::now();
        }
        let events = self.events.get_or_insert_with(|| watcher(self.api.clone(), self.config.clone()).boxed());
        match events.next().await {
            Some(Ok(event)) => {
                if matches!(event, Event::InitDone) && !self.backoff.is_first() {
                    tracing::info!(kind = self.kind(), "the Kubernetes API is there again");
                }
                Ok(event)
            }
            Some(Err(error)) => Err(self.failed(fault_of(&error))),
            None => Err(self.failed(Fault::Passing("the watch ended".to_owned()))),
        }
    }

    fn failed(&mut self, fault: Fault) -> Fault {
        self.events = None;
        if self.begun.elapsed() >= SETTLED {
            self.backoff.end();
        }
        let expected = self.if_allowed && matches!(fault, Fault::Forbidden(_));
        if self.backoff.is_first() && !expected {
            let error = self.cluster.error(&fault);
            tracing::warn!(kind = self.kind(), %error, "lost the Kubernetes API; what is known stays; trying again");
        }
        self.again = Instant::now() + self.backoff.next();
        fault
    }

    fn kind(&self) -> &str {
        self.api.resource_url().rsplit('/').next().unwrap_or_default()
    }
}

fn fault_of(error: &watcher::Error) -> Fault {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Fault::from(error),
        other => Fault::Passing(other.to_string()),
    }
}

/// What is known of objects of one kind, by name.
#[derive(Debug)]
pub(super) struct Listing<T> {
    known: BTreeMap<String, T>,
    /// A list that is under way; it replaces what is known only once it is whole.
    fresh: Option<BTreeMap<String, T>>,
    complete: bool,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), fresh: None, complete: false }
    }
}

impl<T> Listing<T> {
    /// Takes in an event; `read` makes of an object, and of what was known of its name, what is known now. True if
    /// anything may have changed.
    pub(super) fn take(
        &mut self,
        event: Event<DynamicObject>,
        read: impl FnOnce(&DynamicObject, Option<&T>) -> T,
    ) -> bool {
        let name = |object: &DynamicObject| object.metadata.name.clone().unwrap_or_default();
        match event {
            Event::Init => self.fresh = Some(BTreeMap::new()),
            Event::InitApply(object) => {
                let (name, fresh) = (name(&object), self.fresh.get_or_insert_default());
                let now = read(&object, self.known.get(&name));
                fresh.insert(name, now);
            }
            Event::InitDone => {
                self.known = self.fresh.take().unwrap_or_default();
                self.complete = true;
                return true;
            }
            Event::Apply(object) => {
                let name = name(&object);
                let now = read(&object, self.known.get(&name));
                self.known.insert(name, now);
                return true;
            }
            Event::Delete(object) => return self.known.remove(&name(&object)).is_some(),
        }
        false
    }

    /// Everything was listed at least once.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Everything that is known, by name.
    pub(super) fn known(&self) -> &BTreeMap<String, T> {
        &self.known
    }
}

#[cfg(test)]
mod tests {
    use kube::api::ApiResource;

    use super::*;

    fn object(name: &str) -> DynamicObject {
        DynamicObject::new(name, &ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&()))
    }

    /// Takes in events; what is known counts how often an object was read.
    fn take(listing: &mut Listing<u32>, events: impl IntoIterator<Item = Event<DynamicObject>>) -> Vec<bool> {
        events.into_iter().map(|event| listing.take(event, |_, before| before.map_or(1, |count| count + 1))).collect()
    }

    fn known(listing: &Listing<u32>) -> Vec<(&str, u32)> {
        listing.known().iter().map(|(name, count)| (name.as_str(), *count)).collect()
    }

    #[test]
    fn a_list_counts_once_it_is_whole_and_what_was_known_stays_until_then() {
        let mut listing = Listing::default();
        let told = take(&mut listing, [Event::Init, Event::InitApply(object("a")), Event::InitApply(object("b"))]);
        assert_eq!((told, listing.is_complete()), (vec![false; 3], false));
        assert!(listing.known().is_empty());
        assert_eq!(take(&mut listing, [Event::InitDone]), [true]);
        assert!(listing.is_complete());
        assert_eq!(known(&listing), [("a", 1), ("b", 1)]);
        // A second list, as after a lost watch, breaks off and begins anew.
        take(&mut listing, [Event::Init, Event::InitApply(object("c")), Event::Init, Event::InitApply(object("b"))]);
        assert_eq!(known(&listing), [("a", 1), ("b", 1)], "the last whole list counts");
        assert_eq!(take(&mut listing, [Event::InitDone]), [true]);
        assert_eq!(known(&listing), [("b", 2)]);
    }

    #[test]
    fn changes_count_at_once() {
        let mut listing = Listing::default();
        take(&mut listing, [Event::Init, Event::InitDone]);
        assert_eq!(take(&mut listing, [Event::Apply(object("a")), Event::Apply(object("a"))]), [true, true]);
        assert_eq!(known(&listing), [("a", 2)]);
        assert_eq!(take(&mut listing, [Event::Delete(object("a")), Event::Delete(object("a"))]), [true, false]);
        assert!(known(&listing).is_empty());
    }
}
